// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "worker/device/tape_view.h"

namespace remesh::worker {

// Whole chunks of one stretch, which are a part of a slice.
struct SlicePart {
  const TapeView* source = nullptr;  // null: the chunks come from the slice's buffer
  const TapeView* target = nullptr;  // null: the chunks go into it
  int64_t lo = 0;                    // on the tape; whole chunks from the stretch's begin
  int64_t hi = 0;
  int64_t offset = 0;           // bytes into the slice's buffer, a multiple of 16
  uint64_t* digests = nullptr;  // of the chunks, in host memory
  bool carried = false;         // `digests` are the origin's: compared, not written
};

// The first chunk whose bits do not match its digest.
struct Mismatch {
  int part = -1;      // -1: there is none
  int64_t chunk = 0;  // of the part

  bool ok() const { return part < 0; }
};

// Device memory that other processes can use too. It exists while any process has it mapped or
// holds its handle.
struct SharedMemory {
  std::shared_ptr<std::byte> memory;
  Fd handle;
};

// Alignment of memory that devices allocate, in bytes.
inline constexpr size_t kDeviceAlignment = 256;

// Size of CUDA's legacy IPC handle of an allocation.
inline constexpr size_t kIpcHandleBytes = 64;

// The memory of one accelerator or of the host, and the operations on it. An operation is queued,
// starts with the next Drain() at the latest, and answers through its callback, exactly once,
// inside Drain(): OK if it ran, CANCELLED if it was taken back, or the device's error. After an
// error nothing that the operation wrote counts. Parts, buffers and what they point to must live
// until the callback. A buffer is memory of this device, or of the host where the device can reach
// it. Operations run in no fixed order. A single thread calls all methods except name(), uuid() and
// those that make memory (Allocate, Share, Import, ImportIpc, Register), which any thread may call.
class Device {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Mismatch>)>;

  // REQUIRES: pending() == 0.
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "host", "cuda", "sim"

  // Id of this device, the same in every process of the machine; empty for the host's memory.
  virtual std::string uuid() const { return ""; }

  // Allocates memory of the device, which lives as long as its last reference. It is aligned to
  // kDeviceAlignment and its content is undefined. RESOURCE_EXHAUSTED if too little is free.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes) = 0;

  // Like Allocate(), for zeroed memory that other processes can use. UNIMPLEMENTED
  // (NO_SHARED_MEMORY) if the device has no such memory.
  virtual absl::StatusOr<SharedMemory> Share(int64_t bytes);
  // Opens the memory of a handle that Share() made on this device, in another process or in an
  // earlier life of this one. INVALID_ARGUMENT (NO_SUCH_MEMORY) for any other handle, or if the
  // memory is smaller than `bytes`. The caller keeps `handle`.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Import(int handle, int64_t bytes);
  // Opens an allocation of another process by its CUDA legacy IPC handle, and closes it with the
  // last reference. The allocation still belongs to that process: when the process ends or frees
  // it, reads from it are undefined and may bring the device into a state of error. An allocation
  // that is open may be opened again. INVALID_ARGUMENT (NO_SUCH_MEMORY) if `handle` is not such a
  // handle, if the allocation belongs to this process or to another device, or if it is smaller
  // than `bytes`. UNIMPLEMENTED (NO_SHARED_MEMORY) if the device has no such memory.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(std::string_view handle,
                                                               int64_t bytes);

  // Makes host memory accessible to the device and returns the address by which the device reaches
  // it. The access lasts as long as the returned pointer, which `host` must outlive.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Register(std::span<std::byte> host) = 0;

  // source -> buffer. Writes the digests of the bits that it read, but leaves those of carried
  // parts as they are. With a null buffer it computes only the digests. The bytes after a part up
  // to a multiple of 16 bytes become zero, because they travel with the part. REQUIRES: the buffer
  // has room for them.
  virtual void Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) = 0;
  // buffer -> target. Reports chunks whose bits do not match their digest; it may or may not write
  // them.
  virtual void Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) = 0;
  // source -> target, on one host. Writes digests as Pack() does; compares those of carried parts
  // as Unpack() does.
  virtual void Copy(std::vector<SlicePart> parts, Done done) = 0;
  // Compares `digests` with the digests of `source`.
  virtual void Check(std::vector<SlicePart> parts, Done done) = 0;

  // Copies bytes between the device's memory and the host's, in either direction.
  virtual void Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) = 0;

  // Ends with CANCELLED the work that has not begun.
  virtual void CancelQueued() = 0;
  // Runs the callbacks of all work that has ended; returns whether there were any. A callback may
  // queue new work.
  virtual bool Drain() = 0;
  // Amount of work whose callback has not begun.
  virtual int pending() const = 0;
};

// The devices of a host by local index. A single device stands for all indices where all share the
// host's memory.
class LocalDevices {
 public:
  LocalDevices() = default;
  explicit LocalDevices(std::vector<Device*> devices) : devices_(std::move(devices)) {}

  Device* Of(int local) const { return devices_[devices_.size() == 1 ? 0 : local]; }
  const std::vector<Device*>& all() const { return devices_; }
  // Whether their memory is the host's.
  bool in_host_memory() const { return devices_.front()->name() == "host"; }

 private:
  std::vector<Device*> devices_;  // must outlive this
};

}  // namespace remesh::worker
