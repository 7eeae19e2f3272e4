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

// What a trainer of a simulated device writes where one of a GPU has CUDA write a handle of its legacy
// IPC: the allocation is a file of memory, sealed against shrinking, that its process has open. When that
// ends, or closes the file, the handle is of nothing any more.
struct SimIpcHandle {
  static constexpr char kMagic[9] = "sim-ipc1";

  char magic[8];
  uint64_t pid;
  uint64_t descriptor;
  uint64_t inode;   // of the file: descriptors and processes get the numbers of others
  char device[32];  // Device::uuid(), zero behind it
};
static_assert(sizeof(SimIpcHandle) == kIpcHandleBytes);

// The memory of a simulated device. Its addresses are of pages that nobody may read or write: who
// dereferences one crashes, as on the host with a GPU's. The bytes are mapped a second time, where
// only the devices look. Threads: any.
class SimMemory {
 public:
  SimMemory(std::string device, int64_t limit_bytes);

  // As Device::Allocate(). The memory may outlive this. Once freed, its addresses stay dead.
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes);

  // As Device::Share() and Import(): a file of memory stands for what a driver exports.
  absl::StatusOr<SharedMemory> Share(int64_t bytes);
  absl::StatusOr<std::shared_ptr<std::byte>> Import(int handle, int64_t bytes);
  // As Device::ImportIpc(): of a SimIpcHandle.
  absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(std::string_view handle, int64_t bytes);

  // The most that was out at once.
  int64_t most_bytes() const;

  // Other addresses of memory of the host, of the same kind: until what is returned is gone, which
  // `host` must outlive.
  static std::shared_ptr<std::byte> Alias(std::span<std::byte> host);

  // Where the bytes of an address are, of any device of this process; others, the host's, are where
  // they say.
  static std::byte* Behind(const std::byte* address);

 private:
  struct Budget {
    absl::Mutex mutex;
    int64_t free_bytes ABSL_GUARDED_BY(mutex);
    int64_t most_bytes ABSL_GUARDED_BY(mutex) = 0;
  };

  absl::Status Spend(int64_t bytes);
  // Addresses for the memory of a file, until what is returned is gone: then `bytes` are free again.
  std::shared_ptr<std::byte> GiveOut(int file, int64_t bytes) const;

  const std::string device_;
  const int64_t limit_bytes_;
  const std::shared_ptr<Budget> budget_;
};

}  // namespace remesh::worker
