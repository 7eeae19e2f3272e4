// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/testing/fake/fake_comm.h"

#include <strings.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "worker/nccl/testing/fake/fake_kernels.h"
#include "worker/nccl/testing/fake/fake_transfer.h"

namespace remesh::worker::fake_nccl {
namespace {

using nccl::Result;

constexpr auto kPoll = std::chrono::microseconds(20);

int64_t Setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : std::atoll(value);
}

// Whether `done` was true before all local ranks were aborted.
bool Await(const FakeLocal& local, const std::function<bool()>& done) {
  while (!done()) {
    if (local.stopped()) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

void SetState(const std::vector<FakeComm*>& comms, Result state) {
  for (FakeComm* comm : comms) comm->state = state;
}

void StartThread(const std::shared_ptr<FakeLocal>& local, std::function<void()> run) {
  ++local->busy;
  std::thread([local, run = std::move(run)] {
    run();
    --local->busy;
  }).detach();
}

// One rank's part of a group, on its stream, in as many kernels as it takes. None of its operations
// is done before all are.
struct FakeKernels {
  FakeComm* comm;
  RemeshFakeStream* stream;
  std::vector<FakeOperation> operations;
  KernelLimits limits;
  FakeDelays delays;
};

KernelLimits Limits() {
  KernelLimits limits;
  if (const int64_t given = Setting("REMESH_FAKE_NCCL_BATCHES"); given > 0)
    limits.batches = static_cast<int>(given);
  if (const int64_t given = Setting("REMESH_FAKE_NCCL_CHANNELS"); given > 0)
    limits.channels_of_peer = static_cast<int>(given);
  return limits;
}

std::atomic<int64_t> kernels_run = 0;

std::byte* Translate(const FakeOperation& operation) {
  if (operation.bytes == 0) return nullptr;
  void* memory = operation.stream->translate(operation.stream, operation.address, operation.bytes);
  if (memory == nullptr) Die("a send or receive of memory that is not its stream's device's");
  return static_cast<std::byte*>(memory);
}

std::vector<FakeTransfer> TransfersOf(const FakeKernels& kernel) {
  std::vector<FakeTransfer> transfers;
  FakeComm& comm = *kernel.comm;
  for (const FakeOperation& o : kernel.operations) {
    const int from = o.send ? comm.rank : o.peer, to = o.send ? o.peer : comm.rank;
    transfers.emplace_back(&comm.world->channel(from, to), o.send, Translate(o), o.bytes);
  }
  return transfers;
}

// Carries out one kernel. An operation moves while all its channels have come to it: a little later
// than in NCCL, where each moves its part of the bytes.
class KernelRun {
 public:
  KernelRun(const KernelPlan& plan, std::vector<FakeTransfer>& transfers)
      : plan_(plan),
        transfers_(transfers),
        batch_(plan.channels.size(), 0),
        away_(transfers.size(), 0) {
    for (const auto& batches : plan.channels) {
      for (const auto& batch : batches) {
        for (const int operation : batch) ++away_[operation];
      }
    }
    for (size_t c = 0; c < plan.channels.size(); ++c) Arrive(c);
  }

  // Does what can be done now; returns whether that was anything.
  bool Step() {
    bool any = false;
    for (size_t c = 0; c < plan_.channels.size(); ++c) {
      if (batch_[c] == plan_.channels[c].size()) continue;
      bool done = true;
      for (const int operation : plan_.channels[c][batch_[c]]) {
        if (away_[operation] == 0) any |= transfers_[operation].Step();
        done &= transfers_[operation].done();
      }
      if (!done) continue;
      ++batch_[c];
      Arrive(c);
      any = true;
    }
    return any;
  }

  bool done() const {
    for (size_t c = 0; c < plan_.channels.size(); ++c) {
      if (batch_[c] < plan_.channels[c].size()) return false;
    }
    return true;
  }

 private:
  void Arrive(size_t channel) {
    if (batch_[channel] == plan_.channels[channel].size()) return;
    for (const int operation : plan_.channels[channel][batch_[channel]]) --away_[operation];
  }

  const KernelPlan& plan_;
  std::vector<FakeTransfer>& transfers_;
  std::vector<size_t> batch_;  // of each channel
  std::vector<int> away_;      // channels that have not come to the operation
};

std::vector<KernelPlan> PlansOf(const FakeKernels& kernels) {
  std::vector<KernelOperation> operations;
  for (const FakeOperation& o : kernels.operations) operations.push_back({o.send, o.peer});
  return CutIntoKernels(kernels.comm->rank, kernels.comm->ranks, operations, kernels.limits);
}

void RunKernels(void* argument) {
  const std::unique_ptr<FakeKernels> kernels(static_cast<FakeKernels*>(argument));
  const std::shared_ptr<FakeLocal> local = kernels->comm->local;
  kernels->delays.Wait();
  if (!local->stopped()) {
    std::vector<FakeTransfer> transfers = TransfersOf(*kernels);
    for (const KernelPlan& plan : PlansOf(*kernels)) {
      ++kernels_run;
      KernelRun run(plan, transfers);
      while (!run.done() && !local->stopped()) {
        if (!run.Step()) std::this_thread::sleep_for(kPoll);
      }
    }
  }
  --local->busy;
}

// The first use of a peer: both hosts must come to a group with it before either launches anything.
bool Connect(const FakeLocal& local, const std::vector<FakeOperation>& operations) {
  for (const FakeOperation& o : operations)
    o.comm->world->channel(o.comm->rank, o.peer).connected = 1;
  return Await(local, [&] {
    for (const FakeOperation& o : operations) {
      if (o.comm->world->channel(o.peer, o.comm->rank).connected == 0) return false;
    }
    return true;
  });
}

// With NCCL_LAUNCH_MODE=GROUP, a launch waits for the launches of all local ranks, whether they are
// in the group or not.
bool AwaitLaunches(const FakeLocal& local, const std::vector<FakeComm*>& comms) {
  for (FakeComm* comm : comms) ++comm->launches;
  const char* mode = std::getenv("NCCL_LAUNCH_MODE");
  if (mode == nullptr || strcasecmp(mode, "GROUP") != 0) return true;
  return Await(local, [&] {
    for (FakeComm* comm : local.comms) {
      if (comm->launches < comms.front()->launches) return false;
    }
    return true;
  });
}

using ByComm = std::map<FakeComm*, std::vector<FakeOperation>>;

void Launch(FakeLocal& local, ByComm by_comm) {
  for (auto& [comm, operations] : by_comm) {
    ++local.busy;
    RemeshFakeStream* stream = operations.front().stream;
    auto* kernels = new FakeKernels{comm, stream, std::move(operations), Limits(), comm->delays};
    stream->enqueue(stream, &RunKernels, kernels);
  }
}

}  // namespace

void Die(const std::string& rule) {
  std::fprintf(stderr, "fake NCCL: %s\n", rule.c_str());
  std::abort();
}

FakeDelays::FakeDelays(int rank)
    : most_us_(Setting("REMESH_FAKE_NCCL_DELAY_US")),
      random_(static_cast<uint32_t>(Setting("REMESH_FAKE_NCCL_SEED") * 1000 + rank)) {}

void FakeDelays::Wait() {
  if (most_us_ > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % (most_us_ + 1)));
}

void StartInit(std::vector<FakeComm*> comms) {
  auto local = std::make_shared<FakeLocal>();
  local->comms = comms;
  for (FakeComm* comm : comms) {
    comm->local = local;
    comm->world = FakeWorld::Open(comm->id, comm->ranks);
  }
  StartThread(local, [local = local.get(), comms = std::move(comms)] {
    for (FakeComm* comm : comms) {
      comm->delays.Wait();
      if (comm->world == nullptr || !comm->world->Join(comm->rank))
        return SetState(comms, Result::kInvalidUsage);
    }
    for (FakeComm* comm : comms) {
      if (!Await(*local, [&] { return comm->world->complete(); })) return;
      comm->world->Unlink();
    }
    SetState(comms, Result::kSuccess);
  });
}

void StartGroup(std::vector<FakeOperation> operations) {
  const std::shared_ptr<FakeLocal> local = operations.front().comm->local;
  ByComm by_comm;
  std::vector<FakeComm*> comms;
  for (const FakeOperation& o : operations) {
    if (o.comm->local != local) Die("one group over ranks of several worlds");
    if (!by_comm.contains(o.comm)) comms.push_back(o.comm);
    by_comm[o.comm].push_back(o);
  }
  SetState(comms, Result::kInProgress);
  StartThread(local, [local = local.get(), comms, operations, by_comm]() mutable {
    for (FakeComm* comm : comms) comm->delays.Wait();
    if (!Connect(*local, operations) || !AwaitLaunches(*local, comms)) return;
    Launch(*local, std::move(by_comm));
    // As over a network, where a lost peer is an error.
    const bool fails = comms.front()->launches == Setting("REMESH_FAKE_NCCL_FAILING_GROUP");
    SetState(comms, fails ? Result::kRemoteError : Result::kSuccess);
  });
}

void StartFinalize(FakeComm* comm) {
  comm->finalized = true;
  comm->state = Result::kInProgress;
  comm->world->Finalize();
  StartThread(comm->local, [comm] {
    if (Await(*comm->local, [&] { return comm->world->finalized(); }))
      comm->state = Result::kSuccess;
  });
}

Result AwaitStarted(FakeComm& comm) {
  const std::shared_ptr<FakeLocal> local = comm.local;
  ++local->busy;
  const bool started = Await(*local, [&] { return comm.state != Result::kInProgress; });
  --local->busy;
  return started ? Result::kSuccess : Result::kInternalError;
}

int64_t KernelsRun() { return kernels_run; }

void WaitIdle(const FakeLocal& local) {
  while (local.busy > 0) std::this_thread::sleep_for(kPoll);
}

}  // namespace remesh::worker::fake_nccl
