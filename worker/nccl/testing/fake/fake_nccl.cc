// SPDX-License-Identifier: Apache-2.0
// A fake NCCL for machines without a GPU. It looks like NCCL to the link and keeps to NCCL's rules;
// its ranks are threads or processes of one machine. It has only what the link uses. It checks what
// NCCL leaves to its callers as hard as it can: see README.md.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/nccl/testing/fake/fake_comm.h"

namespace remesh::worker::fake_nccl {
namespace {

using nccl::Comm;
using nccl::Result;

// Communicators that exist: any other pointer is to one that was destroyed.
class Registry {
 public:
  void Add(FakeComm* comm) {
    const std::lock_guard lock(mutex_);
    living_.insert(comm);
    ++made_;
  }
  void Remove(FakeComm* comm) {
    const std::lock_guard lock(mutex_);
    living_.erase(comm);
  }
  FakeComm* Find(Comm* handle) {
    auto* comm = reinterpret_cast<FakeComm*>(handle);
    const std::lock_guard lock(mutex_);
    if (!living_.contains(comm)) Die("a communicator that does not exist any more is used");
    return comm;
  }
  int made() {
    const std::lock_guard lock(mutex_);
    return made_;
  }
  int living() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(living_.size());
  }

 private:
  std::mutex mutex_;
  int made_ = 0;
  std::set<FakeComm*> living_;
};

Registry& registry() {
  static auto* registry = new Registry;  // never destroyed: threads may outlive main()
  return *registry;
}

// The calls that the current thread has put into its group.
struct Group {
  int depth = 0;
  std::vector<FakeComm*> inits;
  std::vector<FakeOperation> operations;
};
thread_local Group group;

void CheckOncePerPeer(const std::vector<FakeOperation>& operations) {
  std::set<std::tuple<FakeComm*, int, bool>> seen;
  for (const FakeOperation& o : operations) {
    if (!seen.emplace(o.comm, o.peer, o.send).second)
      Die("two sends or two receives with one peer in one group");
  }
}

Result EndGroup() {
  if (group.depth == 0) Die("ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return Result::kSuccess;
  const Group ended = std::exchange(group, {});
  if (!ended.inits.empty() && !ended.operations.empty()) Die("init and other calls in one group");
  if (ended.inits.empty() && ended.operations.empty()) return Result::kSuccess;
  CheckOncePerPeer(ended.operations);
  if (!ended.inits.empty()) StartInit(ended.inits);
  if (ended.operations.empty()) return Result::kInProgress;
  StartGroup(ended.operations);
  return std::getenv("REMESH_FAKE_NCCL_BLOCKS") == nullptr
             ? Result::kInProgress
             : AwaitStarted(*ended.operations.front().comm);
}

Result Init(Comm** out, int ranks, int rank, const nccl::UniqueId& id, const nccl::Config* config) {
  if (config == nullptr || config->magic != nccl::Config{}.magic || rank < 0 || rank >= ranks)
    return Result::kInvalidArgument;
  if (config->blocking != 0) Die("a blocking communicator");
  auto* comm = new FakeComm(id, ranks, rank);
  registry().Add(comm);
  *out = reinterpret_cast<Comm*>(comm);
  ++group.depth;
  group.inits.push_back(comm);
  EndGroup();
  return Result::kInProgress;
}

Result Enqueue(bool send, const void* address, size_t count, int type, int peer, Comm* handle,
               void* stream) {
  FakeComm* comm = registry().Find(handle);
  auto* fake = static_cast<RemeshFakeStream*>(stream);
  if (fake == nullptr || fake->magic != REMESH_FAKE_STREAM_MAGIC) Die("a stream that is none");
  if (comm->aborted || comm->finalized) Die("a send or receive after abort or finalize");
  if (comm->state != Result::kSuccess && comm->state != Result::kInProgress)
    Die("a communicator that has failed is used again");
  if (comm->state != Result::kSuccess || type != nccl::kUint8) return Result::kInvalidArgument;
  if (peer < 0 || peer >= comm->ranks || peer == comm->rank) return Result::kInvalidArgument;
  ++group.depth;
  group.operations.push_back({comm, send, peer, const_cast<void*>(address), count, fake});
  return EndGroup();
}

void Free(const std::shared_ptr<FakeLocal>& local) {
  for (FakeComm* comm : local->comms) {
    registry().Remove(comm);
    if (comm->world != nullptr) comm->world->Unlink();
    delete comm;
  }
}

Result Abort(FakeComm* comm) {
  if (std::exchange(comm->aborted, true)) Die("a communicator is aborted twice");
  const std::shared_ptr<FakeLocal> local = comm->local;
  if (local == nullptr) Die("abort inside the group that makes the communicator");
  if (++local->aborted < static_cast<int>(local->comms.size())) return Result::kSuccess;
  if (const char* wait = std::getenv("REMESH_FAKE_NCCL_ABORT_MS"); wait != nullptr)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoll(wait)));
  WaitIdle(*local);
  Free(local);
  return Result::kSuccess;
}

// Waits for all ranks of the world: forever, if one of them was aborted.
Result Destroy(FakeComm* comm) {
  if (comm->local->aborted > 0) Die("destroy after abort");
  if (!comm->finalized) StartFinalize(comm);
  while (comm->state != Result::kSuccess)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  auto& comms = comm->local->comms;
  if (!std::exchange(comm->aborted, true) &&
      std::all_of(comms.begin(), comms.end(), [](FakeComm* c) { return c->aborted; })) {
    const std::shared_ptr<FakeLocal> local = comm->local;
    WaitIdle(*local);
    Free(local);
  }
  return Result::kSuccess;
}

}  // namespace
}  // namespace remesh::worker::fake_nccl

#define REMESH_NCCL_EXPORT extern "C" __attribute__((visibility("default")))

namespace fake = remesh::worker::fake_nccl;
using remesh::worker::nccl::Comm;
using remesh::worker::nccl::Config;
using remesh::worker::nccl::Result;
using remesh::worker::nccl::Stream;
using remesh::worker::nccl::UniqueId;

// For tests: communicators that this process ever made, and those that it has not freed.
REMESH_NCCL_EXPORT int remeshFakeNcclMade() { return fake::registry().made(); }
REMESH_NCCL_EXPORT int remeshFakeNcclLiving() { return fake::registry().living(); }

// And the kernels that it has begun.
REMESH_NCCL_EXPORT int64_t remeshFakeNcclKernels() { return fake::KernelsRun(); }

REMESH_NCCL_EXPORT Result ncclGetVersion(int* version) {
  *version = 22809;
  return Result::kSuccess;
}

REMESH_NCCL_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  return fake::FakeWorld::MakeId(*id) ? Result::kSuccess : Result::kSystemError;
}

REMESH_NCCL_EXPORT Result ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank,
                                                 Config* config) {
  return fake::Init(comm, ranks, rank, id, config);
}

REMESH_NCCL_EXPORT Result ncclCommInitRankScalable(Comm** comm, int ranks, int rank, int ids,
                                                   UniqueId* id, Config* config) {
  if (ids < 1 || ids > ranks) return Result::kInvalidArgument;
  return fake::Init(comm, ranks, rank, id[0], config);
}

REMESH_NCCL_EXPORT Result ncclGroupStart() {
  ++fake::group.depth;
  return Result::kSuccess;
}

REMESH_NCCL_EXPORT Result ncclGroupEnd() { return fake::EndGroup(); }

REMESH_NCCL_EXPORT Result ncclSend(const void* address, size_t count, int type, int peer,
                                   Comm* comm, Stream stream) {
  return fake::Enqueue(true, address, count, type, peer, comm, stream);
}

REMESH_NCCL_EXPORT Result ncclRecv(void* address, size_t count, int type, int peer, Comm* comm,
                                   Stream stream) {
  return fake::Enqueue(false, address, count, type, peer, comm, stream);
}

REMESH_NCCL_EXPORT Result ncclCommGetAsyncError(Comm* comm, Result* result) {
  *result = fake::registry().Find(comm)->state;
  return Result::kSuccess;
}

REMESH_NCCL_EXPORT Result ncclCommAbort(Comm* comm) {
  return fake::Abort(fake::registry().Find(comm));
}

REMESH_NCCL_EXPORT Result ncclCommFinalize(Comm* comm) {
  fake::FakeComm* found = fake::registry().Find(comm);
  if (found->local->aborted > 0) fake::Die("finalize after abort");
  fake::StartFinalize(found);
  return Result::kInProgress;
}

REMESH_NCCL_EXPORT Result ncclCommDestroy(Comm* comm) {
  return fake::Destroy(fake::registry().Find(comm));
}

REMESH_NCCL_EXPORT const char* ncclGetErrorString(Result result) {
  constexpr const char* kNames[] = {
      "no error",         "unhandled cuda error", "system error",          "internal error",
      "invalid argument", "invalid usage",        "remote process exited", "in progress"};
  return kNames[static_cast<int>(result)];
}

REMESH_NCCL_EXPORT const char* ncclGetLastError(Comm*) { return "the fake has no last error"; }
