// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/element_oracle.h"
#include "worker/agent/agent.h"
#include "worker/execution/testing/program.h"
#include "worker/files/testing/tmpfs_directory.h"
#include "worker/store/box_message.h"
#include "worker/transport/testing/memory_transport.h"
#include "worker/transport/testing/tapped_transport.h"

// Agents without gRPC: one alone, and two that move a state between them.
namespace remesh::worker {

inline constexpr char kState[] = "jobs/a/states/b";
inline const testing::OracleArray kArray{
    testing::ArrayKey("w"), planner::ElementType::kU16, {6, 8}, 3};

using MakeDevices = std::function<std::vector<std::unique_ptr<Device>>(Transport* woken)>;

// A host's agent with everything but gRPC. It keeps what the agent says, and gives the agent the
// program that the test has planned.
class TestAgent {
 public:
  TestAgent(std::unique_ptr<Transport> transport, const std::string& directory, int index,
            const MakeDevices& make_devices)
      : name_(absl::StrCat("host-", index)), directory_(absl::StrCat(directory, "/", name_)) {
    store_ = *BufferStore::Open(
        {.directory = directory_, .boot_id = "boot", .devices = 1, .handles = &handles});
    auto devices = make_devices(transport.get());
    data_ = std::make_unique<DataThread>(std::move(transport), std::move(devices));
    Agent::Options options{.memory = *AgentMemory::Open(directory_ + "/agent")};
    options.identity.set_host(name_);
    Agent::Ports ports;
    ports.send = [this](const v1::AttachRequest& message) {
      std::lock_guard lock(mutex_);
      said_.push_back(message);
      changed_.notify_all();
    };
    ports.disconnect = [this](const absl::Status& why) { disconnects.push_back(why); };
    ports.welcomed = [](const v1::Welcome&) {};
    ports.unusable = [this](const absl::Status& why) { unusable.push_back(why); };
    ports.fetch = [this](ProgramRequest request, Agent::ProgramDone done) {
      fetching();
      ProgramReader reader(&request.devices, request.plan);
      if (auto status = reader.Add(program); !status.ok()) return done(status);
      done(std::move(reader).Finish());
    };
    agent_ = std::make_unique<Agent>(std::move(options), std::move(ports), &strand_, &files, &loans,
                                     store_.get(), data_.get(), &metrics_);
  }
  ~TestAgent() {
    strand_.Stop();
    files.Stop();
    loans.Stop();
  }

  template <typename F>
  auto OnStrand(F f) {
    std::optional<decltype(f(*agent_))> result;
    std::mutex mutex;
    std::condition_variable done;
    strand_.Post([&] {
      std::lock_guard lock(mutex);
      result.emplace(f(*agent_));
      done.notify_one();
    });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return result.has_value(); });
    return *std::move(result);
  }

  void Command(const v1::AttachResponse& command) {
    OnStrand([&](Agent& agent) {
      agent.Command(command);
      return true;
    });
  }

  // Starts a new stream.
  v1::Register Attach() {
    return OnStrand([](Agent& agent) { return agent.Attaching(); });
  }

  v1::Heartbeat Beat() const {
    v1::Heartbeat beat;
    data_->AddSlices(beat);
    return beat;
  }

  // Waits for the next message of that kind since the last call; nullopt if none comes.
  std::optional<v1::AttachRequest> WaitFor(v1::AttachRequest::EventCase what) {
    std::unique_lock lock(mutex_);
    std::optional<v1::AttachRequest> found;
    changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      while (next_ < said_.size() && !found) {
        if (said_[next_++].event_case() == what) found = said_[next_ - 1];
      }
      return found.has_value();
    });
    return found;
  }

  void Write(const v1::ShardsResponse& shards) {
    for (const v1::Shard& shard : shards.shards()) {
      auto file = *MappedFile::Open(shard.path(), shard.offset() + shard.bytes());
      testing::FillBox(kArray, *BoxInArray(shard.box(), kArray.shape),
                       absl::MakeSpan(file.bytes().data() + shard.offset(), shard.bytes()));
    }
  }
  bool Right(const v1::ShardsResponse& shards) {
    for (const v1::Shard& shard : shards.shards()) {
      auto file = *MappedFile::Open(shard.path(), shard.offset() + shard.bytes());
      if (testing::CheckBox(kArray, *BoxInArray(shard.box(), kArray.shape),
                            absl::MakeSpan(file.bytes().data() + shard.offset(), shard.bytes()))) {
        return false;
      }
    }
    return !shards.shards().empty();
  }

  absl::StatusOr<v1::ShardsResponse> Allocate(const v1::AllocateRequest& request) {
    std::promise<absl::StatusOr<v1::ShardsResponse>> result;
    OnStrand([&](Agent& agent) {
      agent.calls().Allocate(++call_, request, getuid(),
                             [&](auto shards) { result.set_value(std::move(shards)); });
      return true;
    });
    return result.get_future().get();
  }
  absl::StatusOr<v1::SealResponse> Lend(const v1::LendRequest& request) {
    std::promise<absl::StatusOr<v1::SealResponse>> result;
    OnStrand([&](Agent& agent) {
      agent.calls().Lend(++call_, request, getuid(),
                         [&](auto lent) { result.set_value(std::move(lent)); });
      return true;
    });
    return result.get_future().get();
  }
  absl::StatusOr<v1::ShardsResponse> GetShards(int64_t generation) {
    v1::GetShardsRequest request;
    request.set_state(kState);
    request.set_generation(generation);
    return OnStrand([&](Agent& agent) { return agent.buffers().GetShards(request).Now(); });
  }
  // Begins a call that may wait. The answer is in the future.
  std::future<absl::StatusOr<v1::ShardsResponse>> AwaitShards(int64_t generation) {
    v1::GetShardsRequest request;
    request.set_state(kState);
    request.set_generation(generation);
    request.set_wait(true);
    auto answer = std::make_shared<std::promise<absl::StatusOr<v1::ShardsResponse>>>();
    auto result = answer->get_future();
    OnStrand([&](Agent& agent) {
      agent.calls().GetShards(++call_, request, getuid(),
                              [answer](auto shards) { answer->set_value(std::move(shards)); });
      return true;
    });
    return result;
  }
  absl::StatusOr<v1::SealResponse> Unseal() {
    v1::UnsealRequest request;
    request.set_state(kState);
    return OnStrand([&](Agent& agent) { return agent.buffers().Unseal(request); });
  }

  int64_t recycled() {
    return OnStrand([&](Agent&) -> int64_t { return store_->recycling().recycled; });
  }

  // What the metric of that name counts.
  double plans_not_compared() {
    return OnStrand([this](Agent&) {
      for (const auto& family : registry_.Collect()) {
        if (family.name == "remesh_worker_plans_not_compared_total")
          return family.metric.at(0).counter.value;
      }
      return -1.0;
    });
  }

  v1::HostProgram program;
  std::function<void()> fetching = [] {};  // on the strand, before the program comes
  std::vector<absl::Status> disconnects;   // used on the strand
  std::vector<absl::Status> unusable;      // used on the strand
  Strand files, loans;
  HandleTable handles;

 private:
  const std::string name_;
  const std::string directory_;
  prometheus::Registry registry_;
  WorkerMetrics metrics_{registry_, "memory", "memory", false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::AttachRequest> said_;
  size_t next_ = 0;
  LocalCalls::CallId call_ = 0;
  Strand strand_;
  std::unique_ptr<BufferStore> store_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<DataThread> data_;  // last: its thread calls the agent
};

// A host's rows in memory of a trainer.
inline v1::LendRequest LendRows(HandleTable& handles, const std::string& lease) {
  constexpr int64_t kBytes = 4096;
  Fd memory(memfd_create("trainer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), kBytes), 0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  v1::LendRequest request;
  request.set_state(kState);
  request.set_lease(lease);
  request.add_memories()->set_token(handles.Bring(std::move(memory), getuid(), absl::Now()));
  request.mutable_memories(0)->set_bytes(kBytes);
  request.mutable_memories(0)->set_kind("host");
  request.add_shards()->set_array("w");
  return request;
}

// Two hosts with a device each; the array goes from rows to columns.
class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    directory_ = NewTmpfsDirectory("remesh_agent");
    StartBoth();
  }
  ~AgentTest() override {
    hosts_[0].reset();
    hosts_[1].reset();
    std::filesystem::remove_all(directory_);
  }

  void StartHost(int h) {
    addresses_[h] = absl::StrCat("host-", h, "-", ++lives_);
    std::unique_ptr<Transport> transport = fabric_.NewTransport(addresses_[h]);
    if (tap_.spoil || tap_.lingers != nullptr)
      transport = std::make_unique<TappedTransport>(std::move(transport), tap_);
    if (wrap_) transport = wrap_(h, std::move(transport));
    hosts_[h] = std::make_unique<TestAgent>(std::move(transport), directory_, h, make_devices_);
    hosts_[h]->program = ProgramOf(h);
  }
  // Starts both hosts, with the devices and links of the test.
  void StartBoth() {
    for (int h = 0; h < 2; ++h) {
      hosts_[h].reset();
      StartHost(h);
      Assign(h);
    }
  }
  // The planner reports the state.
  void Assign(int h) {
    Command(h, [&](v1::AttachResponse& c) {
      *c.mutable_assign_state()->mutable_assignment() = Rows(h);
    });
  }

  template <typename Set>
  void Command(int host, Set set, uint64_t epoch = 5) {
    v1::AttachResponse command;
    command.set_epoch(epoch);
    set(command);
    hosts_[host]->Command(command);
  }

  static v1::Assignment Assignment(int64_t generation, const planner::Box& box) {
    v1::Assignment assignment;
    assignment.set_state(kState);
    assignment.set_generation(generation);
    auto& array = *assignment.add_arrays();
    array.set_name("w");
    array.set_element_type("u16");
    array.add_shape(6);
    array.add_shape(8);
    *assignment.add_shards()->mutable_box() = BoxMessage(box);
    return assignment;
  }
  static v1::Assignment Rows(int h) {
    return Assignment(1, planner::Box{{{h * 3, h * 3 + 3}, {0, 8}}});
  }
  static v1::Assignment Columns(int h) {
    return Assignment(2, planner::Box{{{0, 6}, {h * 4, h * 4 + 4}}});
  }

  // One host's program: the operations with an end on it.
  static v1::HostProgram ProgramOf(int host) {
    std::vector<worker::TestOperation> operations, all;
    for (int window = 0; window < 2; ++window) {
      for (int from = 0; from < 2; ++from) {
        const int to = (from + window) % 2;
        all.push_back({.window = window,
                       .box = planner::Box{{{from * 3, from * 3 + 3}, {to * 4, to * 4 + 4}}},
                       .from = 70 + from,
                       .to = 70 + to});
        if (from == host || to == host) operations.push_back(all.back());
      }
    }
    return TestProgram({{"w", {6, 8}, 16}}, 2).Of(operations, "print", all);
  }

  void Allocate() {
    for (auto& host : hosts_) {
      v1::AllocateRequest request;
      request.set_state(kState);
      auto shards = host->Allocate(request);
      ASSERT_TRUE(shards.ok()) << shards.status();
      host->Write(*shards);
    }
  }
  void Seal() {
    for (auto& host : hosts_) {
      v1::SealRequest request;
      request.set_state(kState);
      ASSERT_TRUE(host->OnStrand([&](Agent& agent) { return agent.buffers().Seal(request); }).ok());
    }
  }

  v1::AttemptId Attempt() {
    v1::AttemptId attempt;
    attempt.set_execution("jobs/a/executions/1");
    attempt.set_attempt(attempt_);
    return attempt;
  }

  template <typename Change>
  void Prepare(Change change) {
    for (int h = 0; h < 2; ++h) {
      Command(h, [&](v1::AttachResponse& c) {
        v1::Prepare& prepare = *c.mutable_prepare();
        *prepare.mutable_attempt() = Attempt();
        *prepare.mutable_target() = Columns(h);
        prepare.set_source_generation(1);
        prepare.set_fingerprint("print");
        prepare.set_windows(2);
        prepare.set_self(h);
        for (int p = 0; p < 2; ++p) {
          v1::PeerEntry& peer = *prepare.add_peers();
          peer.set_host(absl::StrCat("host-", p));
          peer.set_token(absl::StrCat("token ", 100000000 + attempt_ * 10 + p, "."));
          peer.add_device_ids(70 + p);
          auto& address = *peer.add_data_addresses();
          address.set_transport("memory");
          address.set_address(addresses_[p]);
        }
        change(prepare);
      });
    }
  }
  void Prepare() {
    Prepare([](v1::Prepare&) {});
  }
  template <typename Set>
  void Both(v1::AttachRequest::EventCase answer, Set set) {
    for (int h = 0; h < 2; ++h) Command(h, set);
    for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(answer));
  }
  void Prepared() {
    Prepare();
    for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kPrepared));
  }
  void Grant(int h) {
    Command(h, [&](v1::AttachResponse& c) {
      *c.mutable_grant()->mutable_attempt() = Attempt();
      c.mutable_grant()->set_until(2);
    });
  }
  void Transfer() {
    for (int h = 0; h < 2; ++h) Grant(h);
    for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kWindowDone));
    for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kWindowDone));
  }
  void Verify() {
    Both(v1::AttachRequest::kVerified,
         [&](v1::AttachResponse& c) { *c.mutable_verify()->mutable_attempt() = Attempt(); });
  }
  void Welcome(int host, const std::string& cluster_uid, int64_t incarnation = 1) {
    Command(host, [&](v1::AttachResponse& c) {
      c.mutable_welcome()->set_cluster_uid(cluster_uid);
      c.mutable_welcome()->set_incarnation(incarnation);
      c.mutable_position()->set_cluster_uid(cluster_uid);
      c.mutable_position()->set_leadership("first");
      c.mutable_position()->set_sequence(1);
    });
    Assign(host);  // as it does after each Welcome
  }
  void SetCommit(v1::AttachResponse& c) {
    *c.mutable_commit()->mutable_attempt() = Attempt();
    c.mutable_commit()->set_state(kState);
    c.mutable_commit()->set_generation(2);
  }
  void Commit() {
    Both(v1::AttachRequest::kCommitted, [&](v1::AttachResponse& c) { SetCommit(c); });
  }
  void SetAbort(v1::AttachResponse& c, bool even_committed = false) {
    *c.mutable_abort()->mutable_attempt() = Attempt();
    c.mutable_abort()->set_state(kState);
    c.mutable_abort()->set_generation(2);
    c.mutable_abort()->set_even_committed(even_committed);
  }
  void Abort(bool even_committed = false) {
    Both(v1::AttachRequest::kQuiesced, [&](v1::AttachResponse& c) { SetAbort(c, even_committed); });
  }
  // Committed, and the links have let go.
  void Committed() {
    ReadyToMove();
    Prepared();
    Transfer();
    Verify();
    Commit();
    for (auto& host : hosts_) {
      while (host->Attach().attempts_size() > 0) std::this_thread::yield();
    }
  }
  void ReadyToMove() {
    Allocate();
    Seal();
  }

  std::string directory_;
  MemoryFabric fabric_;
  MakeDevices make_devices_ = [](Transport* woken) { return HostMemory(1, woken); };
  Tap tap_;
  std::function<std::unique_ptr<Transport>(int host, std::unique_ptr<Transport>)> wrap_;
  int lives_ = 0;
  int attempt_ = 1;
  std::string addresses_[2];
  std::unique_ptr<TestAgent> hosts_[2];
};

}  // namespace remesh::worker
