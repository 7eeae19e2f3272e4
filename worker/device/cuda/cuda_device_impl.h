// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_memory.h"
#include "worker/device/cuda/table_ring.h"
#include "worker/device/table_device.h"

namespace remesh::worker {

// One GPU. Work goes to its streams in turn, at once while there is room for tables. Work without
// room waits here and can be taken back. An event marks the end of each work; the owner finds it in
// Drain(). A host function queued after the event wakes the owner.
class CudaDevice final : public TableDevice {
 public:
  // Creates the GPU's context, which takes a while. `peers` are the GPUs that can access its
  // memory.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int index, std::vector<int> peers,
                                                          std::function<void()> on_finished);
  ~CudaDevice() override;

  std::string_view name() const override { return "cuda"; }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes) override;
  std::string uuid() const override { return UuidOfGpu(gpu_.index); }
  absl::StatusOr<SharedMemory> Share(int64_t bytes) override;
  absl::StatusOr<std::shared_ptr<std::byte>> Import(int handle, int64_t bytes) override;
  absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(std::string_view handle,
                                                       int64_t bytes) override;
  absl::StatusOr<std::shared_ptr<std::byte>> Register(std::span<std::byte> host) override;
  void Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) override;
  void CancelQueued() override;
  bool Drain() override;
  int pending() const override { return pending_; }

 private:
  static constexpr int kTableStreams = 4, kTransferStreams = 2;

  struct Work {
    std::vector<SlicePart> parts;
    WorkTable table;  // without chunks: a transfer
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    int64_t bytes = 0;
    Done done;
    absl::StatusOr<Mismatch> result = Mismatch();
    TablePlace place;
    cudaEvent_t event = nullptr;
  };

  struct Gpu {
    int index;
    std::string label;       // "cuda:0"
    std::vector<int> peers;  // that can access its memory
  };

  CudaDevice(Gpu gpu, std::function<void()> on_finished);
  absl::Status Start();

  void RunTable(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer, Done done) override;
  void RunInHalves(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer, Done done);
  void Give(Work work);
  // Launches the waiting work, in its order, until there is no room.
  void LaunchWaiting();
  cudaError_t Launch(Work& work);
  cudaError_t LaunchTable(Work& work, cudaStream_t stream);
  cudaError_t TakeEvent(cudaEvent_t& event);
  // Moves the work that has ended to ended_, with its result.
  void CollectEnded();
  void Finish(Work& work);
  // For the methods that any thread may call.
  absl::Status CheckAlive() const;
  // Makes all work end in `error` from now on.
  void Fail(cudaError_t error);

  const Gpu gpu_;
  const std::function<void()> on_finished_;
  absl::Status failure_;              // used by the owner alone
  std::atomic<bool> failed_ = false;  // the same, for other threads
  int pending_ = 0;
  uint64_t launched_ = 0;
  TableRing ring_;
  std::array<cudaStream_t, kTableStreams + kTransferStreams> streams_{};
  std::vector<cudaEvent_t> idle_events_;
  std::deque<Work> waiting_;
  std::list<Work> in_flight_;
  std::deque<Work> ended_;
};

}  // namespace remesh::worker
