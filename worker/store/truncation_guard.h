// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <span>

namespace remesh::worker {

// Lives through the truncation of a mapped file by another process: a load or store behind the new
// end raises SIGBUS, whose default is the end of this process. While the guard lives, the first
// such access gives the whole mapping zeros of its own instead of the file, in every thread, and
// hit() says so: nothing that was read from it or written to it since counts.
//
// The first guard installs the handler of SIGBUS, for good; what no guard covers goes to the
// handler before it.
class TruncationGuard {
 public:
  // `mapping` is of whole pages but for its end, and unmapped after the guard.
  explicit TruncationGuard(std::span<std::byte> mapping);
  ~TruncationGuard();

  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;

  bool hit() const { return hit_; }

 private:
  static void OnBusError(int signal, siginfo_t* info, void* context);
  static void Install();
  // In the handler; true when `address` lies in a guarded mapping.
  static bool Replace(const std::byte* address);

  const std::span<std::byte> mapping_;
  std::atomic<bool> hit_ = false;
  TruncationGuard* next_ = nullptr;  // in the list of all
};

}  // namespace remesh::worker
