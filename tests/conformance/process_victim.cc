// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/process_victim.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "base/check.h"

namespace remesh::worker::conformance {
namespace {

int RunVictim(const MakeTransport& make) {
  const auto transport = make();
  VictimRole role(*transport, MeetParent(*transport));
  alarm(60);  // in case it is not killed
  while (true) {
    if (!transport->Progress()) transport->Wait(std::chrono::milliseconds(100));
  }
}

class ProcessVictim : public Victim {
 public:
  ProcessVictim() {
    int in[2], out[2];
    REMESH_CHECK(pipe(in) == 0 && pipe(out) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    for (int fd : {in[0], in[1], out[0], out[1]}) posix_spawn_file_actions_addclose(&actions, fd);
    char self[] = "/proc/self/exe", flag[] = "--victim";
    char* arguments[] = {self, flag, nullptr};
    REMESH_CHECK(posix_spawn(&pid_, self, &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    input_ = fdopen(in[1], "w");
    output_ = fdopen(out[0], "r");
    char line[256];
    constexpr char kLabel[] = "address ";
    do {  // a library may have something to say first
      REMESH_CHECK(std::fgets(line, sizeof(line), output_) != nullptr);
    } while (std::strncmp(line, kLabel, std::strlen(kLabel)) != 0);
    address_.assign(line + std::strlen(kLabel), std::strcspn(line, "\n") - std::strlen(kLabel));
  }
  ~ProcessVictim() override {
    Kill();
    std::fclose(input_);
    std::fclose(output_);
  }
  std::string address() const override { return address_; }
  void Start(const std::vector<Peer>& peers) override {
    for (const Peer& peer : peers)
      std::fprintf(input_, "%s %s\n", peer.address.c_str(), peer.token.c_str());
    std::fputs("\n", input_);
    std::fflush(input_);
  }
  void Kill() override {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  std::FILE* input_ = nullptr;
  std::FILE* output_ = nullptr;
  std::string address_;
};

}  // namespace

std::vector<Peer> MeetParent(const Transport& transport) {
  std::printf("address %s\n", transport.address().c_str());
  std::fflush(stdout);
  std::vector<Peer> peers;
  char line[256];
  while (std::fgets(line, sizeof(line), stdin) != nullptr && line[0] != '\n') {
    line[std::strcspn(line, "\n")] = '\0';
    char* space = std::strchr(line, ' ');
    REMESH_CHECK(space != nullptr);
    *space = '\0';
    peers.push_back({line, space + 1});
  }
  return peers;
}

std::unique_ptr<Transport> OrDie(absl::StatusOr<std::unique_ptr<Transport>> transport) {
  if (!transport.ok()) std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
  REMESH_CHECK(transport.ok());
  return *std::move(transport);
}

std::unique_ptr<Victim> NewProcessVictim() { return std::make_unique<ProcessVictim>(); }

int RunTestsOrVictim(int argc, char** argv, const MakeTransport& make) {
  if (argc == 2 && std::strcmp(argv[1], "--victim") == 0) return RunVictim(make);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace remesh::worker::conformance
