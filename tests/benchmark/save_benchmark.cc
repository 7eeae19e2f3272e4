// SPDX-License-Identifier: Apache-2.0
// What saves of a large job cost the server's journal: save_benchmark FOLDER [HOSTS [SAVES]].
//
// A real controller and a real journal in FOLDER, with simulated workers. A save is CreateState
// {write_once}, the seals of all hosts, the commit, and DeleteState of the save before until every
// host has forgotten it. The disk answers after every 64 messages of workers.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/controller/controller.h"
#include "server/journal/journal.h"

namespace {

std::atomic<int64_t> syncs{0}, wal_bytes{0};

bool IsWal(int fd) {
  char path[4096];
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size > 0 && absl::EndsWith(absl::string_view(path, size), "-wal");
}

}  // namespace

// The program's own definitions come before those of the C library, also for SQLite.
extern "C" int fsync(int fd) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}
extern "C" ssize_t pwrite64(int fd, const void* bytes, size_t size, off_t offset) {
  if (IsWal(fd)) wal_bytes += static_cast<int64_t>(size);
  return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

namespace remesh::server {
namespace {

constexpr int kMessagesToOneWrite = 64;

// One shard on each host of the topology.
std::shared_ptr<const PlacedState> Place(const v1::StateSpec& spec) {
  auto placed = std::make_shared<PlacedState>();
  placed->spec = spec;
  for (const v1::Host& host : spec.topology().hosts()) {
    HostPart& part = placed->hosts[host.name()];
    part.shards.emplace_back();
    part.devices = {.device_ids = {0}, .local_devices = {0}};
    ++placed->total_shards;
  }
  return placed;
}

int64_t ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

class Cluster {
 public:
  Cluster(std::unique_ptr<Journal> journal, int hosts) : journal_(std::move(journal)) {
    auto restored = ReadRecords({}, [](const v1::StateSpec& spec) { return Place(spec); });
    restored->past = journal_->past();
    ControllerOptions options;
    options.states_max = 10'000;
    controller_ = std::make_unique<Controller>(
        options, [this] { return ++random_; }, *std::move(restored));
    Take(controller_->Start(now_));
    for (int i = 0; i < hosts; ++i) Attach(i);
    Write();
  }

  // Saves once, and deletes the save before.
  void Save(int number) {
    const std::string name = absl::StrFormat("jobs/train/states/save.000001.%08d", number);
    const std::string uid = Create(name);
    for (size_t i = 0; i < names_.size(); ++i) Seal(i, name, uid);
    Write();
    if (!last_name_.empty()) Delete(last_name_, last_uid_);
    last_name_ = name;
    last_uid_ = uid;
    now_.steady += std::chrono::seconds(60);
  }

  int64_t persisted_bytes() const { return persisted_bytes_; }
  int64_t transactions() const { return transactions_; }
  int64_t spec_bytes() const { return static_cast<int64_t>(spec_.ByteSizeLong()); }
  int64_t states() {
    Ask(v1::ListStatesRequest());
    return std::get<v1::ListStatesResponse>(reply_).states_size();
  }

 private:
  void Attach(int i) {
    v1::AttachRequest first;
    v1::Register& registration = *first.mutable_register_();
    registration.set_host(absl::StrFormat("host-%04d", i));
    registration.set_host_secret(absl::StrFormat("%032d", i));
    registration.set_process_nonce(absl::StrFormat("%016d", i));
    registration.add_devices()->set_id(i);
    registration.set_nics(1);
    registration.set_nic_bytes_per_second(1e9);
    registration.set_fabric_bytes_per_second(1e9);
    registration.set_supports_write_once(true);
    names_.push_back(registration.host());
    spec_.mutable_topology()->add_hosts()->set_name(registration.host());
    OnWorkerMessage(i, std::move(first));
  }

  std::string Create(const std::string& name) {
    CreateState create{.request = {}, .placed = Place(spec_)};
    create.request.mutable_state()->set_name(name);
    create.request.mutable_state()->set_write_once(true);
    create.request.set_request_id(std::string(36, 'r'));
    Ask(std::move(create));
    return std::get<v1::State>(reply_).uid();
  }

  void Seal(int host, const std::string& name, const std::string& uid) {
    v1::AttachRequest message;
    v1::StateManifest& manifest = *message.mutable_manifest_changed()->mutable_manifest();
    manifest.set_state(name);
    manifest.set_state_uid(uid);
    manifest.set_generation(1);
    manifest.set_phase(v1::SHARD_PHASE_READY);
    manifest.set_sealed_shards(1);
    manifest.set_total_shards(1);
    OnWorkerMessage(host, std::move(message));
  }

  void Delete(const std::string& name, const std::string& uid) {
    v1::DeleteStateRequest remove;
    remove.set_name(name);
    remove.set_uid(uid);
    Ask(std::move(remove));
    for (size_t i = 0; i < names_.size(); ++i) {
      v1::AttachRequest message;
      message.mutable_forgotten()->set_state(name);
      message.mutable_forgotten()->set_state_uid(uid);
      OnWorkerMessage(i, std::move(message));
    }
    Write();
  }

  void OnWorkerMessage(int host, v1::AttachRequest message) {
    Take(
        controller_->Handle(StreamMessage{.stream = StreamId(host + 1), .message = message}, now_));
    if (++messages_ % kMessagesToOneWrite == 0) Write();
  }

  // The answer, which must not be an error, is in reply_.
  void Ask(Request request) {
    Take(controller_->Handle(Call{.id = ++last_call_, .request = std::move(request)}, now_));
    Write();
  }

  void Take(Actions actions) {
    for (Action& action : actions) {
      if (auto* persist = std::get_if<Persist>(&action)) {
        pending_.push_back(std::move(*persist));
      } else if (auto* reply = std::get_if<ReplyTo>(&action)) {
        if (!reply->reply.ok()) Fail(reply->reply.status());
        reply_ = *std::move(reply->reply);
      }
    }
  }

  void Write() {
    while (!pending_.empty()) {
      const Persist persist = std::move(pending_.front());
      pending_.pop_front();
      for (const Record& record : persist.records) {
        persisted_bytes_ +=
            static_cast<int64_t>(record.key.size() + (record.bytes ? record.bytes->size() : 0));
      }
      ++transactions_;
      if (auto status = journal_->Write(persist.sequence, persist.records); !status.ok())
        Fail(status);
      Take(controller_->Handle(Persisted{.sequence = persist.sequence}, now_));
    }
  }

  [[noreturn]] static void Fail(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }

  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Controller> controller_;
  std::deque<Persist> pending_;
  std::vector<std::string> names_;
  v1::StateSpec spec_;
  std::string last_name_, last_uid_;
  Reply reply_;
  Moment now_{.steady = std::chrono::seconds(1), .wall = absl::UnixEpoch()};
  uint64_t random_ = 0;
  CallId last_call_ = 0;
  int64_t messages_ = 0, persisted_bytes_ = 0, transactions_ = 0;
};

int Run(const std::string& folder, int hosts, int saves) {
  const std::string path = folder + "/journal.db";
  auto journal = Journal::Open(path, {});
  if (!journal.ok()) {
    std::fprintf(stderr, "%s\n", std::string(journal.status().message()).c_str());
    return 1;
  }
  Cluster cluster(*std::move(journal), hosts);
  const int step = std::max(1, saves / 10);
  std::printf("%d hosts, spec %ld bytes; of each save:\n", hosts, long{cluster.spec_bytes()});
  std::printf("%6s %16s %18s %13s %11s %7s | %11s %11s %7s\n", "saves", "persisted bytes",
              "beyond spec, /host", "transactions", "WAL bytes", "syncs", "journal KiB",
              "memory MiB", "states");
  for (int save = 1; save <= saves;) {
    const int64_t bytes = cluster.persisted_bytes(), writes = cluster.transactions();
    const int64_t wal = wal_bytes, synced = syncs;
    const int first = save;
    for (; save <= saves && save < first + step; ++save) cluster.Save(save);
    const double count = save - first;
    const double persisted = (cluster.persisted_bytes() - bytes) / count;
    std::printf("%6d %16.0f %18.1f %13.1f %11.0f %7.1f | %11ld %11ld %7ld\n", save - 1, persisted,
                (persisted - cluster.spec_bytes()) / hosts,
                (cluster.transactions() - writes) / count, (wal_bytes - wal) / count,
                (syncs - synced) / count, long{FileBytes(path) >> 10}, long{ResidentBytes() >> 20},
                long{cluster.states()});
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace remesh::server

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: save_benchmark FOLDER [HOSTS [SAVES]]\n");
    return 2;
  }
  std::filesystem::create_directories(argv[1]);
  return remesh::server::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 1000,
                             argc > 3 ? std::atoi(argv[3]) : 1000);
}
