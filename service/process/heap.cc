// SPDX-License-Identifier: Apache-2.0
#include "service/process/heap.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace remesh::service {

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
}

uint64_t OwnMemoryBytes() {
  uint64_t size = 0, resident = 0, of_files = 0;
  std::ifstream("/proc/self/statm") >> size >> resident >> of_files;
  return (resident - std::min(resident, of_files)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

int64_t FreedBytesKept() {
#ifdef __GLIBC__
  int64_t size = 0;
  int64_t resident = 0;
  int64_t of_files = 0;
  std::ifstream("/proc/self/statm") >> size >> resident >> of_files;
  const struct mallinfo2 heap = mallinfo2();
  const auto used = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
  return std::max<int64_t>(0, (resident - of_files) * sysconf(_SC_PAGESIZE) - used);
#else
  return 0;
#endif
}

void HeapTrimmer::Trim() {
#ifdef __GLIBC__
  const auto start = std::chrono::steady_clock::now();
  if (start < next_) return;
  if (FreedBytesKept() > kept_ + kKeptMax) {
    malloc_trim(0);
    kept_ = FreedBytesKept();
  }
  const auto end = std::chrono::steady_clock::now();
  next_ = end + kPart * (end - start);
#endif
}

}  // namespace remesh::service
