// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/cuda_device_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/device/cuda/cuda_memory.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/run_table.h"
#include "worker/device/device_error.h"

namespace remesh::worker {
namespace {

// Runs on a thread of the driver, which must not call CUDA.
void Wake(void* on_finished) { (*static_cast<const std::function<void()>*>(on_finished))(); }

// Work split in two, and the results of the halves.
struct TwoWorks {
  WorkHalves halves;
  Device::Done done;
  int left = 2;
  absl::StatusOr<Mismatch> results[2] = {Mismatch(), Mismatch()};

  void End(int half, absl::StatusOr<Mismatch> result) {
    results[half] = std::move(result);
    if (--left > 0) return;
    for (const auto& one : results) {
      if (!one.ok()) return done(one);
    }
    done(halves.Whole(*results[0], *results[1]));
  }
};

}  // namespace

CudaDevice::CudaDevice(Gpu gpu, std::function<void()> on_finished)
    : gpu_(std::move(gpu)), on_finished_(std::move(on_finished)) {}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(int index, std::vector<int> peers,
                                                             std::function<void()> on_finished) {
  Gpu gpu{index, absl::StrCat("cuda:", index), std::move(peers)};
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::move(gpu), std::move(on_finished)));
  RETURN_IF_ERROR(device->Start());
  return device;
}

absl::Status CudaDevice::Start() {
  REMESH_CUDA_OR_RETURN(gpu_.label, cudaSetDevice(gpu_.index));
  for (cudaStream_t& stream : streams_) {
    REMESH_CUDA_OR_RETURN(gpu_.label, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  for (int peer : gpu_.peers) {
    const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled) REMESH_CUDA_OR_RETURN(gpu_.label, error);
    cudaGetLastError();
  }
  REMESH_CUDA_OR_RETURN(gpu_.label, ring_.Open());
  return CudaStatus(gpu_.label, PrepareRunTable());
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(gpu_.index);
  // After this no host function uses on_finished_ any more.
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamSynchronize(stream);
  }
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  for (cudaEvent_t event : idle_events_) cudaEventDestroy(event);
}

absl::Status CudaDevice::CheckAlive() const {
  if (!failed_) return absl::OkStatus();
  return DeviceError(gpu_.label, "CONTEXT", "its context is in error");
}

absl::StatusOr<std::shared_ptr<std::byte>> CudaDevice::Allocate(int64_t bytes) {
  RETURN_IF_ERROR(CheckAlive());
  return AllocateOnGpu(gpu_.label, gpu_.index, gpu_.peers, bytes);
}

absl::StatusOr<SharedMemory> CudaDevice::Share(int64_t bytes) {
  RETURN_IF_ERROR(CheckAlive());
  return ShareOnGpu(gpu_.label, gpu_.index, gpu_.peers, bytes);
}

absl::StatusOr<std::shared_ptr<std::byte>> CudaDevice::Import(int handle, int64_t bytes) {
  RETURN_IF_ERROR(CheckAlive());
  return ImportOnGpu(gpu_.label, gpu_.index, gpu_.peers, handle, bytes);
}

absl::StatusOr<std::shared_ptr<std::byte>> CudaDevice::ImportIpc(std::string_view handle,
                                                                 int64_t bytes) {
  RETURN_IF_ERROR(CheckAlive());
  return ImportIpcOnGpu(gpu_.label, gpu_.index, handle, bytes);
}

absl::StatusOr<std::shared_ptr<std::byte>> CudaDevice::Register(std::span<std::byte> host) {
  return RegisterWithGpu(gpu_.label, gpu_.index, host);
}

void CudaDevice::RunTable(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer,
                          Done done) {
  Work work;
  work.table = MakeWorkTable(kind, parts, buffer);
  if (TableLayout(work.table).bytes > TableRing::kBytes) {
    return RunInHalves(kind, std::move(parts), buffer, std::move(done));
  }
  work.parts = std::move(parts);
  work.done = std::move(done);
  Give(std::move(work));
}

void CudaDevice::RunInHalves(WorkKind kind, std::vector<SlicePart> parts, std::byte* buffer,
                             Done done) {
  auto two = std::make_shared<TwoWorks>(TwoWorks{WorkHalves(std::move(parts)), std::move(done)});
  auto end = [two](int half) {
    return [two, half](absl::StatusOr<Mismatch> result) { two->End(half, std::move(result)); };
  };
  RunTable(kind, two->halves.first(), buffer, end(0));
  RunTable(kind, two->halves.second(), buffer, end(1));
}

void CudaDevice::Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) {
  Work work;
  work.to = to;
  work.from = from;
  work.bytes = bytes;
  work.done = std::move(done);
  Give(std::move(work));
}

void CudaDevice::Give(Work work) {
  ++pending_;
  waiting_.push_back(std::move(work));
  LaunchWaiting();
}

void CudaDevice::LaunchWaiting() {
  cudaSetDevice(gpu_.index);
  while (failure_.ok() && !waiting_.empty()) {
    Work& work = waiting_.front();
    if (work.table.chunks() > 0) {
      work.place = ring_.Take(TableLayout(work.table).bytes);
      if (work.place.pinned == nullptr) return;
    }
    const cudaError_t error = Launch(work);
    in_flight_.push_back(std::move(work));
    waiting_.pop_front();
    if (error != cudaSuccess) Fail(error);
  }
  if (failure_.ok() || waiting_.empty()) return;
  // After a failure nothing is launched any more.
  for (Work& work : waiting_) {
    work.result = failure_;
    ended_.push_back(std::move(work));
  }
  waiting_.clear();
  on_finished_();
}

cudaError_t CudaDevice::Launch(Work& work) {
  cudaError_t error = TakeEvent(work.event);
  if (error != cudaSuccess) return error;
  const uint64_t turn = launched_++;
  cudaStream_t stream = streams_[turn % kTableStreams];
  if (work.table.chunks() > 0) {
    error = LaunchTable(work, stream);
  } else {
    stream = streams_[kTableStreams + turn % kTransferStreams];
    if (work.bytes > 0) {
      error = cudaMemcpyAsync(work.to, work.from, static_cast<size_t>(work.bytes),
                              cudaMemcpyDefault, stream);
    }
  }
  if (error == cudaSuccess) error = cudaEventRecord(work.event, stream);
  if (error == cudaSuccess) {
    error = cudaLaunchHostFunc(stream, Wake, const_cast<std::function<void()>*>(&on_finished_));
  }
  return error;
}

cudaError_t CudaDevice::LaunchTable(Work& work, cudaStream_t stream) {
  const TableLayout layout(work.table);
  layout.Write(work.table, work.place.pinned);
  cudaError_t error = cudaMemcpyAsync(work.place.on_gpu, work.place.pinned, layout.bytes,
                                      cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) return error;
  error = worker::RunTable(layout.View(work.place.on_gpu), work.table.chunks(), stream);
  if (error != cudaSuccess) return error;
  return cudaMemcpyAsync(work.place.pinned, work.place.on_gpu, layout.found_bytes(),
                         cudaMemcpyDeviceToHost, stream);
}

cudaError_t CudaDevice::TakeEvent(cudaEvent_t& event) {
  if (idle_events_.empty()) return cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  event = idle_events_.back();
  idle_events_.pop_back();
  return cudaSuccess;
}

void CudaDevice::CollectEnded() {
  for (auto work = in_flight_.begin(); work != in_flight_.end();) {
    const cudaError_t state = cudaEventQuery(work->event);
    if (state == cudaErrorNotReady) {
      ++work;
      continue;
    }
    if (state != cudaSuccess) return Fail(state);
    Finish(*work);
    ended_.push_back(std::move(*work));
    work = in_flight_.erase(work);
  }
}

void CudaDevice::Finish(Work& work) {
  idle_events_.push_back(work.event);
  if (work.place.pinned == nullptr) return;
  const kernels::TableView found = TableLayout(work.table).View(work.place.pinned);
  work.result = FinishWork(work.parts, work.table, found.digests, *found.first_wrong);
  ring_.GiveBack(work.place);
}

void CudaDevice::Fail(cudaError_t error) {
  failure_ = CudaStatus(gpu_.label, error);
  failed_ = true;
  // Returns at once if the context is in error. Otherwise waits, so that no work still runs on
  // memory that callers give up.
  for (cudaStream_t stream : streams_) cudaStreamSynchronize(stream);
  for (Work& work : in_flight_) {
    work.result = failure_;
    ended_.push_back(std::move(work));
  }
  in_flight_.clear();
  on_finished_();
}

void CudaDevice::CancelQueued() {
  if (waiting_.empty()) return;
  for (Work& work : waiting_) {
    work.result = absl::CancelledError("cancelled before it began");
    ended_.push_back(std::move(work));
  }
  waiting_.clear();
  on_finished_();
}

bool CudaDevice::Drain() {
  cudaSetDevice(gpu_.index);
  if (failure_.ok()) CollectEnded();
  LaunchWaiting();
  std::deque<Work> ended;
  ended.swap(ended_);
  for (Work& work : ended) {
    --pending_;
    work.done(std::move(work.result));
  }
  return !ended.empty();
}

}  // namespace remesh::worker
