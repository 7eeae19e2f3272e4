// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::service {

// Lets the C library keep what one plan freed for the next: up to 8 MiB at the top of each heap,
// with blocks below 4 MiB taken from there. By default it returns such memory to the kernel and
// faults it in again, which takes about a sixth of planning a small request. Before any thread
// starts; does nothing without glibc.
void KeepFreedMemory();

// Gives back to the kernel what the C library has kept of freed memory, where that is much: blocks
// freed by a large plan, or by many watchers, are otherwise held for ever by the heaps of the
// threads that took them. Small amounts stay, for what comes next.
class HeapTrimmer {
 public:
  // Freed memory beyond what could not be given back the last time.
  static constexpr int64_t kKeptMax = int64_t{32} << 20;

  // Looks, and trims where it is worth it. To be called now and then, by one thread.
  void Trim();

 private:
  int64_t kept_ = 0;  // after the last time
};

// Resident memory of no file that is in nobody's use: freed, and kept. 0 without glibc.
int64_t FreedBytesKept();

}  // namespace remesh::service
