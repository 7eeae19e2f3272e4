// SPDX-License-Identifier: Apache-2.0
#include "worker/device/testing/sim_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/fd.h"
#include "base/status_macros.h"
#include "worker/device/device.h"
#include "worker/device/device_error.h"

namespace remesh::worker {
namespace {

constexpr size_t kPageBytes = 4096;

size_t RoundedUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::byte* Reserve(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REMESH_CHECK(at != MAP_FAILED);
  return static_cast<std::byte*>(at);
}

// One allocation. The bytes lie between two guard pages; their end is the begin of the second.
struct Segment {
  size_t bytes = 0;             // whole pages
  std::byte* hidden = nullptr;  // address at which devices access the bytes
};

absl::Mutex& RegistryMutex() {
  static auto* const mutex = new absl::Mutex;
  return *mutex;
}
// Segments by the device address that callers get.
std::map<const std::byte*, Segment>& Registry() {
  static auto* const segments = new std::map<const std::byte*, Segment>;
  return *segments;
}

// Makes a zeroed file that is sealed against shrinking and growing, so that a process may safely
// map it.
Fd MakeFile(size_t bytes) {
  Fd file(memfd_create("remesh-sim-device", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REMESH_CHECK(file.get() >= 0 && ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  REMESH_CHECK(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  return file;
}

std::byte* MapSegment(int file, size_t bytes) {
  std::byte* const guarded = Reserve(bytes + 2 * kPageBytes);
  void* const hidden =
      mmap(guarded + kPageBytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  REMESH_CHECK(hidden != MAP_FAILED);
  return static_cast<std::byte*>(hidden);
}

// The bytes that devices use of an allocation's pages.
size_t UsedBytes(int64_t bytes) {
  return RoundedUp(std::max<size_t>(static_cast<size_t>(bytes), 1), kDeviceAlignment);
}
size_t PageBytes(int64_t bytes) { return RoundedUp(UsedBytes(bytes), kPageBytes); }

void FreeSegment(const std::byte* address) {
  absl::MutexLock lock(&RegistryMutex());
  const auto segment = Registry().find(address);
  munmap(segment->second.hidden - kPageBytes, segment->second.bytes + 2 * kPageBytes);
  Registry().erase(segment);  // the reservation stays
}

}  // namespace

SimMemory::SimMemory(std::string device, int64_t limit_bytes)
    : device_(std::move(device)), limit_bytes_(limit_bytes), budget_(std::make_shared<Budget>()) {
  absl::MutexLock lock(&budget_->mutex);
  budget_->free_bytes = limit_bytes;
}

absl::Status SimMemory::Spend(int64_t bytes) {
  absl::MutexLock lock(&budget_->mutex);
  if (bytes > budget_->free_bytes)
    return DeviceMemoryExhausted(device_, bytes, budget_->free_bytes);
  budget_->free_bytes -= bytes;
  budget_->most_bytes = std::max(budget_->most_bytes, limit_bytes_ - budget_->free_bytes);
  return absl::OkStatus();
}

int64_t SimMemory::most_bytes() const {
  absl::MutexLock lock(&budget_->mutex);
  return budget_->most_bytes;
}

std::shared_ptr<std::byte> SimMemory::GiveOut(int file, int64_t bytes) const {
  const size_t pages = PageBytes(bytes);
  std::byte* const address = Reserve(pages);
  std::byte* const hidden = MapSegment(file, pages);
  {
    absl::MutexLock lock(&RegistryMutex());
    Registry()[address] = {pages, hidden};
  }
  return std::shared_ptr<std::byte>(address, [budget = budget_, address, bytes](std::byte*) {
    FreeSegment(address);
    absl::MutexLock lock(&budget->mutex);
    budget->free_bytes += bytes;
  });
}

absl::StatusOr<std::shared_ptr<std::byte>> SimMemory::Allocate(int64_t bytes) {
  RETURN_IF_ERROR(Spend(bytes));
  const size_t pages = PageBytes(bytes);
  const std::shared_ptr<std::byte> memory = GiveOut(MakeFile(pages).get(), bytes);
  std::memset(Behind(memory.get()), 0xA5,
              pages);  // fresh memory has no defined content
  // The allocation ends at the end of a page, so that access beyond it crashes.
  return std::shared_ptr<std::byte>(memory, memory.get() + (pages - UsedBytes(bytes)));
}

absl::StatusOr<SharedMemory> SimMemory::Share(int64_t bytes) {
  RETURN_IF_ERROR(Spend(bytes));
  Fd file = MakeFile(PageBytes(bytes));
  std::shared_ptr<std::byte> memory = GiveOut(file.get(), bytes);
  return SharedMemory{std::move(memory), std::move(file)};
}

absl::StatusOr<std::shared_ptr<std::byte>> SimMemory::Import(int handle, int64_t bytes) {
  struct stat info {};
  const int seals = fcntl(handle, F_GET_SEALS);
  const bool sound = fstat(handle, &info) == 0 && seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
  if (!sound || static_cast<size_t>(info.st_size) < PageBytes(bytes)) {
    return NoSuchMemory(device_, bytes, "the handle is not of memory that long");
  }
  RETURN_IF_ERROR(Spend(bytes));
  return GiveOut(handle, bytes);
}

absl::StatusOr<std::shared_ptr<std::byte>> SimMemory::ImportIpc(std::string_view handle,
                                                                int64_t bytes) {
  SimIpcHandle named{};
  if (handle.size() == sizeof(named)) std::memcpy(&named, handle.data(), sizeof(named));
  if (std::string_view(named.magic, sizeof(named.magic)) != SimIpcHandle::kMagic)
    return NoSuchMemory(device_, bytes, "it is none of the legacy IPC");
  if (std::string_view(named.device, strnlen(named.device, sizeof(named.device))) != device_)
    return NoSuchMemory(device_, bytes, "it is of another device");
  if (named.pid == static_cast<uint64_t>(getpid()))
    return NoSuchMemory(device_, bytes, "a process cannot open what it allocated itself");
  const std::string path = absl::StrCat("/proc/", named.pid, "/fd/", named.descriptor);
  const Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || info.st_ino != named.inode)
    return NoSuchMemory(device_, bytes, "no process has this memory (any more)");
  return Import(file.get(), bytes);
}

std::shared_ptr<std::byte> SimMemory::Alias(std::span<std::byte> host) {
  std::byte* const address = Reserve(RoundedUp(std::max<size_t>(host.size(), 1), kPageBytes));
  absl::MutexLock lock(&RegistryMutex());
  Registry()[address] = {host.size(), host.data()};
  return std::shared_ptr<std::byte>(address, [](std::byte* address) {
    absl::MutexLock lock(&RegistryMutex());
    Registry().erase(address);  // the reservation stays
  });
}

std::byte* SimMemory::Behind(const std::byte* address) {
  absl::MutexLock lock(&RegistryMutex());
  const auto after = Registry().upper_bound(address);
  if (after != Registry().begin()) {
    const auto& [begin, segment] = *std::prev(after);
    if (address < begin + segment.bytes) return segment.hidden + (address - begin);
  }
  return const_cast<std::byte*>(address);
}

}  // namespace remesh::worker
