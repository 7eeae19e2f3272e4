// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <span>

namespace remesh::worker {

// Keeps this process alive when another process truncates a mapped file. A load or store behind the
// new end raises SIGBUS, which by default ends the process. While the guard lives, the first such
// access replaces the whole mapping in every thread: it gets zeros of its own instead of the file.
// hit() says so: nothing that was read from or written to the mapping since counts.
//
// The first guard installs the handler of SIGBUS, for good. What no guard covers goes to the
// handler that was there before.
class TruncationGuard {
 public:
  // `mapping` consists of whole pages except for its end, and must be unmapped after the guard
  // ends.
  explicit TruncationGuard(std::span<std::byte> mapping);
  ~TruncationGuard();

  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;

  bool hit() const { return hit_; }

 private:
  static void OnBusError(int signal, siginfo_t* info, void* context);
  static void Install();
  // Runs in the handler. Returns true if `address` is in a guarded mapping.
  static bool Replace(const std::byte* address);

  const std::span<std::byte> mapping_;
  std::atomic<bool> hit_ = false;
  TruncationGuard* next_ = nullptr;  // in the list of all
};

}  // namespace remesh::worker
