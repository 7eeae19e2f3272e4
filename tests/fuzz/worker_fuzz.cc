// SPDX-License-Identifier: Apache-2.0
#include <prometheus/registry.h>

#include "absl/synchronization/notification.h"
#include "tests/fuzz/buffer_folder.h"
#include "tests/fuzz/inputs.pb.h"
#include "tests/fuzz/run_on.h"
#include "tests/fuzz/target.h"
#include "worker/agent/agent.h"
#include "worker/transport/testing/memory_transport.h"

namespace remesh::fuzz {

using worker::Agent;
using worker::DataThread;

namespace {

// A worker's agent with everything but gRPC and other hosts.
class WorkerWorld {
 public:
  WorkerWorld() {
    Agent::Options options{.memory = *worker::AgentMemory::Open(folder_.path() + "/agent")};
    options.identity.set_host("a");
    Agent::Ports ports;
    ports.send = [](const v1::AttachRequest&) {};
    // As if it had dialled again.
    ports.disconnect = [this](const absl::Status&) { (void)agent_->Attaching(); };
    ports.welcomed = [](const v1::Welcome&) {};
    ports.unusable = [](const absl::Status&) {};
    ports.fetch = [this](worker::ProgramRequest request, Agent::ProgramDone done) {
      worker::ProgramReader reader(&request.devices, request.plan, 1 << 12);
      if (auto status = reader.Add(program_); !status.ok()) return done(status);
      done(std::move(reader).Finish());
    };
    agent_ = std::make_unique<Agent>(std::move(options), std::move(ports), &strand_, &files_,
                                     &loans_, store_.get(), data_.get(), &metrics_);
  }
  ~WorkerWorld() {
    RunOn(strand_, [this] { agent_->Close(); });
    data_.reset();
    files_.Stop();
    loans_.Stop();
    strand_.Stop();
  }

  void Do(const LocalInput::Call& call) {
    RunOn(strand_, [&] { DoNow(call); });
    // What it began is over by then, but for what waits for peers or for a slow copy.
    for (int i = 0; i < 8; ++i) {
      RunOn(files_, [] {});
      RunOn(loans_, [] {});
      absl::Notification stopped;
      data_->Stop("no attempt", [&] { stopped.Notify(); });
      stopped.WaitForNotification();
      RunOn(strand_, [] {});
    }
  }

 private:
  void DoNow(const LocalInput::Call& call) {
    switch (call.what_case()) {
      case LocalInput::Call::kCommand:
        return agent_->Command(call.command());
      case LocalInput::Call::kProgram:
        program_ = call.program();
        return;
      case LocalInput::Call::kAllocate:
        return agent_->calls().Allocate(++last_, call.allocate(), /*user=*/0, [](const auto&) {});
      case LocalInput::Call::kGetShards:
        return agent_->calls().GetShards(++last_, call.get_shards(), /*user=*/0,
                                         [](const auto&) {});
      case LocalInput::Call::kGetHost:
        return agent_->calls().GetHost(++last_, call.get_host(), /*user=*/0, [](const auto&) {});
      case LocalInput::Call::kSeal:
        return (void)agent_->buffers().Seal(call.seal());
      case LocalInput::Call::kUnseal:
        return (void)agent_->buffers().Unseal(call.unseal());
      case LocalInput::Call::kRelease:
        return (void)agent_->buffers().Release(call.release());
      case LocalInput::Call::kCancel:
        return agent_->calls().Cancel(call.cancel());
      case LocalInput::Call::kLend:
        return agent_->calls().Lend(++last_, call.lend(), /*user=*/0, [](const auto&) {});
      case LocalInput::Call::WHAT_NOT_SET:
        return;
    }
  }

  static std::unique_ptr<DataThread> OpenData(std::unique_ptr<worker::Transport> transport) {
    auto devices = worker::HostMemory(1, transport.get());
    return std::make_unique<DataThread>(std::move(transport), std::move(devices));
  }

  BufferFolder folder_;
  prometheus::Registry registry_;
  worker::WorkerMetrics metrics_{registry_, "memory", "memory", false};
  worker::MemoryFabric fabric_;
  v1::HostProgram program_;
  worker::LocalCalls::CallId last_ = 0;
  Strand strand_, files_, loans_;
  std::unique_ptr<worker::BufferStore> store_ = folder_.Open();
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<DataThread> data_ = OpenData(fabric_.NewTransport("a"));
};

}  // namespace
}  // namespace remesh::fuzz

// The planner's commands and trainers' calls in any order.
REMESH_FUZZ_PROTO(remesh::fuzz::LocalInput, input) {
  remesh::fuzz::WorkerWorld world;
  for (int i = 0; i < input.calls_size() && i < 32; ++i) world.Do(input.calls(i));
}
