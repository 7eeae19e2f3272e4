// SPDX-License-Identifier: Apache-2.0
// GB/s of messages between two processes on loopback: transport_benchmark [--transport tcp|ucx]
// [--encrypt] [--in-flight N] [--both-ways] [--rendezvous BYTES] [--tls TLS]. Every message has
// memory of its own, 256 MiB in all, so that nothing stays in the cache.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "worker/transport/tcp_transport.h"
#include "worker/transport/ucx_transport.h"

namespace remesh::worker {
namespace {

constexpr size_t kMemoryBytes = 256 << 20;
constexpr size_t kSizes[] = {4 << 10, 12 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20};

struct Flags {
  std::string transport = "tcp";
  UcxOptions ucx;
  int in_flight = 16;
  int64_t total_bytes = int64_t{2} << 30;  // in each round
  bool both_ways = false;
  bool encrypt = false;
  std::string first_address;  // set in the second process
};

// Posts messages of one size, at most `in_flight` at once, until all have gone.
class Stream {
 public:
  Stream(PeerGroup& group, int peer, bool send, size_t size, int64_t total_bytes, uint32_t round,
         int in_flight, std::vector<std::byte>& memory)
      : group_(group),
        peer_(peer),
        send_(send),
        size_(size),
        round_(round),
        count_(total_bytes / size),
        memory_(memory) {
    for (int i = 0; i < in_flight; ++i) Post();
  }
  bool done() const { return ended_ == count_; }

 private:
  void Post() {
    if (posted_ == count_) return;
    const std::span<std::byte> bytes(memory_.data() + posted_ * size_ % kMemoryBytes, size_);
    const MessageTag tag{.window = round_, .index = static_cast<uint32_t>(posted_++)};
    auto done = [this](absl::Status status) {
      REMESH_CHECK(status.ok());
      ++ended_;
      Post();
    };
    send_ ? group_.Send(peer_, tag, bytes, done) : group_.Receive(peer_, tag, bytes, done);
  }

  PeerGroup& group_;
  const int peer_;
  const bool send_;
  const size_t size_;
  const uint32_t round_;
  const int64_t count_;
  std::vector<std::byte>& memory_;
  int64_t posted_ = 0, ended_ = 0;
};

// Process 0 receives, process 1 sends; a message each way afterwards keeps the rounds apart.
void Run(Transport& transport, const Flags& flags, int self, const std::vector<Peer>& table) {
  auto group = *transport.Open(self, table);
  // The last message may begin just before the end.
  constexpr size_t kRoom = kMemoryBytes + kSizes[std::size(kSizes) - 1];
  std::vector<std::byte> out(kRoom, std::byte{1}), in(kRoom, std::byte{2});
  auto drive = [&](const std::function<bool()>& done) {
    while (!done()) {
      if (!transport.Progress()) transport.Wait(std::chrono::milliseconds(1000));
    }
  };
  uint32_t round = 0;
  for (size_t size : kSizes) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    std::vector<std::unique_ptr<Stream>> streams;
    for (bool send : {false, true}) {
      if (!flags.both_ways && send != (self == 1)) continue;
      streams.push_back(std::make_unique<Stream>(*group, 1 - self, send, size, flags.total_bytes,
                                                 round, flags.in_flight, send ? out : in));
    }
    for (const auto& stream : streams) drive([&] { return stream->done(); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
    int barrier = 0;
    std::byte token[2];
    const MessageTag tag{.window = ++round, .from_device = 1};
    auto passed = [&](absl::Status status) { barrier += status.ok() ? 1 : 0; };
    group->Send(1 - self, tag, std::span(token, 1), passed);
    group->Receive(1 - self, tag, std::span(token + 1, 1), passed);
    drive([&] { return barrier == 2; });
    if (self == 0) {
      std::printf("%8zu KiB  %.2f GB/s%s, %.2f GB per processor second\n", size >> 10,
                  static_cast<double>(flags.total_bytes) / seconds.count() / 1e9,
                  flags.both_ways ? " each way" : "",
                  static_cast<double>(flags.total_bytes) / cpu_seconds / 1e9);
    }
    ++round;
  }
  group->Abort();
  drive([&] { return group->quiesced(); });
}

pid_t SpawnPeer(const std::string& address, std::vector<std::string> arguments,
                std::FILE** output) {
  int out[2];
  REMESH_CHECK(pipe(out) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  arguments.insert(arguments.end(), {"--first", address});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid;
  REMESH_CHECK(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ) == 0);
  close(out[1]);
  *output = fdopen(out[0], "r");
  return pid;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A transport between two processes");
  app.add_option("--transport", flags.transport)->check(CLI::IsMember({"tcp", "ucx"}));
  app.add_option("--rendezvous", flags.ucx.rendezvous_bytes);
  app.add_option("--ahead", flags.ucx.ahead_bytes_max);
  app.add_option("--in-flight", flags.in_flight);
  app.add_option("--bytes", flags.total_bytes);
  app.add_option("--tls", flags.ucx.tls);
  app.add_option("--devices", flags.ucx.net_devices);
  app.add_flag("--encrypt", flags.encrypt, "of tcp");
  app.add_flag("--both-ways", flags.both_ways);
  app.add_option("--first", flags.first_address);
  CLI11_PARSE(app, argc, argv);
  auto transport = flags.transport == "tcp" ? *NewTcpTransport({}) : *NewUcxTransport(flags.ucx);
  const std::string tokens[] = {"token of first..", "token of second."};
  if (!flags.first_address.empty()) {
    std::printf("%s\n", transport->address().c_str());
    std::fflush(stdout);
    Run(*transport, flags, 1,
        {{flags.first_address, tokens[0], 0, flags.encrypt},
         {transport->address(), tokens[1], 0, flags.encrypt}});
    return 0;
  }
  std::FILE* output;
  const pid_t pid = SpawnPeer(transport->address(), {argv, argv + argc}, &output);
  char line[256] = "";
  REMESH_CHECK(std::fgets(line, sizeof(line), output) != nullptr);
  std::string second(line);
  second.pop_back();
  Run(*transport, flags, 0,
      {{transport->address(), tokens[0], 0, flags.encrypt}, {second, tokens[1], 0, flags.encrypt}});
  waitpid(pid, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace remesh::worker

int main(int argc, char** argv) { return remesh::worker::Main(argc, argv); }
