// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "worker/nccl/nccl_types.h"
#include "worker/nccl/testing/fake/fake_stream.h"
#include "worker/nccl/testing/fake/fake_world.h"

namespace remesh::worker::fake_nccl {

struct FakeComm;

// Ends the process, and says which rule: the caller broke a rule of NCCL's that it could have kept.
[[noreturn]] void Die(const std::string& rule);

// Ranks that were initialised in one group: those of one process. NCCL frees nothing before the
// last of them is aborted; in the fake, nothing stops before that either.
struct FakeLocal {
  std::vector<FakeComm*> comms;
  std::atomic<int> aborted = 0;
  std::atomic<int> busy = 0;  // threads and kernels that use the ranks

  bool stopped() const { return aborted == static_cast<int>(comms.size()); }
};

// Seeded waits of up to REMESH_FAKE_NCCL_DELAY_US microseconds (seed: REMESH_FAKE_NCCL_SEED).
class FakeDelays {
 public:
  explicit FakeDelays(int rank);
  void Wait();

 private:
  const int64_t most_us_;
  std::mt19937 random_;
};

// A communicator: what ncclComm_t points to.
struct FakeComm {
  FakeComm(const nccl::UniqueId& id, int ranks, int rank)
      : id(id), ranks(ranks), rank(rank), delays(rank) {}

  const nccl::UniqueId id;
  const int ranks;
  const int rank;
  std::unique_ptr<FakeWorld> world;  // set by StartInit(); null: the id is of no use
  std::shared_ptr<FakeLocal> local;
  std::atomic<nccl::Result> state = nccl::Result::kInProgress;
  std::atomic<int> launches = 0;
  bool aborted = false;
  bool finalized = false;
  FakeDelays delays;  // of the thread that launches
};

// An ncclSend or ncclRecv that has not begun.
struct FakeOperation {
  FakeComm* comm = nullptr;
  bool send = false;
  int peer = 0;
  void* address = nullptr;
  size_t bytes = 0;
  RemeshFakeStream* stream = nullptr;
};

// What ncclGroupEnd starts. Each runs on a thread of its own, and ends with the state of its
// communicators. The kernels are on their streams when that state is success, and not before.
void StartInit(std::vector<FakeComm*> comms);
void StartGroup(std::vector<FakeOperation> operations);
void StartFinalize(FakeComm* comm);
// Waits until what StartGroup() began is on the streams, or all local ranks are aborted. Imitates a
// call that should not block, but does.
nccl::Result AwaitStarted(FakeComm& comm);
// The kernels that this process has begun.
int64_t KernelsRun();
// Waits until nothing uses the ranks any more.
void WaitIdle(const FakeLocal& local);

}  // namespace remesh::worker::fake_nccl
