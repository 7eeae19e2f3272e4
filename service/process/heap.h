// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace remesh::service {

// Lets the C library keep memory that one plan or move freed for the next: up to 8 MiB at the top
// of each heap, from which it takes blocks below 4 MiB. By default it returns such memory to the
// kernel and faults it in again, which takes about a sixth of the time to plan a small request, and
// is most page faults of a move. Call before any thread starts. Does nothing without glibc.
void KeepFreedMemory();

// Returns freed memory that the C library has kept to the kernel, when there is much of it.
// Otherwise the heaps of the threads that took them hold blocks freed by a large plan, or by many
// watchers, forever. Keeps small amounts for later use.
class HeapTrimmer {
 public:
  // The most freed memory to keep, beyond what the last trim could not give back.
  static constexpr int64_t kKeptMax = int64_t{32} << 20;

  // Measures, and trims if it is worthwhile; in 1 / kPart of the time at most, for a large heap
  // takes long to measure. To be called from time to time, by one thread.
  void Trim();

 private:
  static constexpr int kPart = 200;

  std::chrono::steady_clock::time_point next_;  // not before this
  int64_t kept_ = 0;                            // bytes that the last trim could not give back
};

// Resident bytes of this process that back no file: its heaps and stacks. 0 where that is unknown.
uint64_t OwnMemoryBytes();

// Resident bytes that back no file and that the program has freed or never used, kept by the C
// library. 0 without glibc.
int64_t FreedBytesKept();

}  // namespace remesh::service
