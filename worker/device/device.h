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

// Whole chunks of one stretch, as a part of a slice.
struct SlicePart {
  const TapeView* source = nullptr;  // null: they come out of the slice's buffer
  const TapeView* target = nullptr;  // null: they go into it
  int64_t lo = 0;                    // on the tape; a multiple of chunks from the stretch's begin
  int64_t hi = 0;
  int64_t offset = 0;           // bytes into the slice's buffer, a multiple of 16
  uint64_t* digests = nullptr;  // of the chunks, in host memory
  bool carried = false;         // `digests` are the origin's: compared, not written
};

// The first chunk whose bits are not those that its digest says.
struct Mismatch {
  int part = -1;      // -1: there is none
  int64_t chunk = 0;  // of the part

  bool ok() const { return part < 0; }
};

// Memory of a device that other processes may have too. It is there while anybody has it mapped or
// holds its handle.
struct SharedMemory {
  std::shared_ptr<std::byte> memory;
  Fd handle;
};

// Of memory that devices allocate.
inline constexpr size_t kDeviceAlignment = 256;

// Of the handle that CUDA's legacy IPC makes of an allocation.
inline constexpr size_t kIpcHandleBytes = 64;

// The memory of one accelerator, or of the host, and what is done in it. Work is queued and answers by
// its callback, exactly once, inside Drain(): OK when it ran, CANCELLED when it was taken back, or
// the device's error, after which nothing that it wrote counts. Parts, buffers and what they point to must
// live until then; a buffer is memory of this device (or of the host, where the device can reach
// it). Work runs in no fixed order. One thread calls everything but name(), uuid() and what makes
// memory (Allocate, Share, Import, ImportIpc, Register), which any may.
class Device {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<Mismatch>)>;

  // REQUIRES: pending() == 0.
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "host", "cuda", "sim"

  // Of this very device, the same in every process of the machine; empty: the host's memory.
  virtual std::string uuid() const { return ""; }

  // Memory of the device, which lives as long as its last reference; aligned to kDeviceAlignment, its
  // content undefined. RESOURCE_EXHAUSTED when there is not so much.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes) = 0;

  // The same for memory that other processes may have, its content zero. UNIMPLEMENTED
  // (NO_SHARED_MEMORY) where the device has none.
  virtual absl::StatusOr<SharedMemory> Share(int64_t bytes);
  // The memory of a handle that Share() of another process, or of an earlier life of this one, made
  // on this device. INVALID_ARGUMENT (NO_SUCH_MEMORY) for any other, or where there are less than
  // `bytes`. `handle` stays the caller's.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Import(int handle, int64_t bytes);
  // The memory of an allocation of another process, by the handle that CUDA's legacy IPC makes of it;
  // closed with its last reference. It is that process's own: when that ends or frees it, what is read
  // of it is undefined and may bring the device into a state of error. What is open may be opened
  // again. INVALID_ARGUMENT (NO_SUCH_MEMORY) for what is no such handle, or is one of this process or of
  // another device, or where there are less than `bytes`; UNIMPLEMENTED (NO_SHARED_MEMORY) where the
  // device has none.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> ImportIpc(std::string_view handle,
                                                               int64_t bytes);

  // Lets the device work on memory of the host, while what is returned lives, which the memory must
  // outlive: the address by which the device reaches it.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Register(std::span<std::byte> host) = 0;

  // source -> buffer. Digests of what was read are written, or for carried parts left as they are.
  // A null buffer: only the digests. What is behind a part up to a multiple of 16 bytes becomes zero,
  // as it travels with the parts. REQUIRES: the buffer has room for it.
  virtual void Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) = 0;
  // buffer -> target; chunks whose bits are not their digest's are reported, and may be written or
  // not.
  virtual void Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) = 0;
  // source -> target, on one host; digests as in Pack(), those of carried parts compared as in
  // Unpack().
  virtual void Copy(std::vector<SlicePart> parts, Done done) = 0;
  // Digests of `source`, compared.
  virtual void Check(std::vector<SlicePart> parts, Done done) = 0;

  // Bytes between memory of the device and of the host, either way.
  virtual void Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) = 0;

  // Work that has not begun ends CANCELLED.
  virtual void CancelQueued() = 0;
  // Runs the callbacks of what has ended; returns whether there were any. A callback may queue new
  // work.
  virtual bool Drain() = 0;
  // Work whose callback has not begun.
  virtual int pending() const = 0;
};

// The devices of a host by local index: one where all share the host's memory.
class LocalDevices {
 public:
  LocalDevices() = default;
  explicit LocalDevices(std::vector<Device*> devices) : devices_(std::move(devices)) {}

  Device* Of(int local) const { return devices_[devices_.size() == 1 ? 0 : local]; }
  const std::vector<Device*>& all() const { return devices_; }

 private:
  std::vector<Device*> devices_;  // outlive this
};

}  // namespace remesh::worker
