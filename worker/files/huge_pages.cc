// SPDX-License-Identifier: Apache-2.0
#include "worker/files/huge_pages.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace remesh::worker {
namespace {

// Processor seconds per byte above which ordinary pages are the better choice: they take 0.8
// seconds for a GiB, all in all.
constexpr double kSecondsPerByteMax = 1.0 / (1 << 30);

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// An aligned mapping of `bytes` at `offset` of the file; nullptr if there is none.
std::byte* Map(int fd, int64_t offset, int64_t bytes) {
  const size_t length = static_cast<size_t>(bytes);
  void* start;
  if (bytes < kHugePageBytes) {
    start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    return start == MAP_FAILED ? nullptr : static_cast<std::byte*>(start);
  }
  // Reserves more addresses than needed, uses the aligned ones and gives the rest back.
  const size_t room = length + kHugePageBytes;
  start = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  std::byte* const first = static_cast<std::byte*>(start);
  const size_t skip = -reinterpret_cast<uintptr_t>(first) % kHugePageBytes;
  std::byte* const aligned = first + skip;
  if (mmap(aligned, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) ==
      MAP_FAILED) {
    munmap(first, room);
    return nullptr;
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const end = aligned + (length + page - 1) / page * page;
  if (skip > 0) munmap(first, skip);
  if (end < first + room) munmap(end, static_cast<size_t>(first + room - end));
  return aligned;
}

}  // namespace

bool OnTmpfs(int fd) {
  struct statfs info;
  return fstatfs(fd, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

bool ReserveHugePages(int fd, int64_t offset, int64_t bytes) {
  bytes = bytes / kHugePageBytes * kHugePageBytes;
  if (bytes == 0 || !OnTmpfs(fd)) return false;
  std::byte* const start = Map(fd, offset, bytes);
  if (start == nullptr) return false;
  const double begun = ThreadSeconds();
  // MADV_COLLAPSE makes a huge page only where one of its pages exists already.
  bool all = true;
  for (int64_t at = 0; at < bytes && all; at += kHugePageBytes) {
    all = pwrite(fd, "", 1, offset + at) == 1;
  }
  all = all && madvise(start, static_cast<size_t>(bytes), MADV_COLLAPSE) == 0;
  munmap(start, static_cast<size_t>(bytes));
  return all && ThreadSeconds() - begun < kSecondsPerByteMax * static_cast<double>(bytes);
}

std::span<std::byte> MapAligned(int fd, int64_t bytes) {
  std::byte* const start = Map(fd, 0, bytes);
  if (start == nullptr) return {};
  return std::span(start, static_cast<size_t>(bytes));
}

}  // namespace remesh::worker
