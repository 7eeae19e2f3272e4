// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"

namespace remesh::worker {

// The handle that a trainer of a simulated device sends in place of a CUDA legacy IPC handle. Its
// allocation is a memory file, sealed against shrinking, that the trainer's process has open. When
// the process ends or closes the file, the handle names nothing any more.
struct SimIpcHandle {
  static constexpr char kMagic[9] = "sim-ipc1";

  char magic[8];
  uint64_t pid;
  uint64_t descriptor;
  uint64_t inode;   // of the file: numbers of descriptors and processes are reused
  char device[32];  // Device::uuid(), then zeros
};
static_assert(sizeof(SimIpcHandle) == kIpcHandleBytes);

// The memory of a simulated device. Its addresses point to pages without access: dereferencing one
// crashes, as dereferencing a GPU's address on the host does. The bytes are mapped a second time,
// where only the devices access them. Thread-safe.
class SimMemory {
 public:
  SimMemory(std::string device, int64_t limit_bytes);

  // As Device::Allocate(). The memory may outlive this. Its addresses are not reused after it is
  // freed.
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes);

  // As Device::Share() and Import(): a memory file stands for the handle that a driver exports.
  absl::StatusOr<SharedMemory> Share(int64_t bytes);
  absl::StatusOr<std::shared_ptr<std::byte>> Import(int handle, int64_t bytes);
  // As Device::ImportIpc(), for a SimIpcHandle.
  absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(std::string_view handle, int64_t bytes);

  // The most memory that was ever allocated at once, in bytes.
  int64_t most_bytes() const;

  // Maps host memory to addresses of the simulated device, until the returned pointer is gone.
  // `host` must outlive that pointer.
  static std::shared_ptr<std::byte> Alias(std::span<std::byte> host);

  // Where the bytes behind an address are, for addresses of any device of this process. Returns
  // other addresses, those of the host, unchanged.
  static std::byte* Behind(const std::byte* address);

 private:
  struct Budget {
    absl::Mutex mutex;
    int64_t free_bytes ABSL_GUARDED_BY(mutex);
    int64_t most_bytes ABSL_GUARDED_BY(mutex) = 0;
  };

  absl::Status Spend(int64_t bytes);
  // Maps the memory of a file to device addresses, until the returned pointer is gone; then `bytes`
  // are free again.
  std::shared_ptr<std::byte> GiveOut(int file, int64_t bytes) const;

  const std::string device_;
  const int64_t limit_bytes_;
  const std::shared_ptr<Budget> budget_;
};

}  // namespace remesh::worker
