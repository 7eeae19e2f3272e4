// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace remesh::worker {

// Makes threads take turns at bytes of which each writes only some bits. A lock holds one block of
// memory at a time. An atomic exchange for each byte would do too, but takes 20 cycles for half a
// byte; this takes as long for a block.
class BlockLock {
 public:
  BlockLock() = default;
  ~BlockLock() { Release(); }
  BlockLock(const BlockLock&) = delete;
  BlockLock& operator=(const BlockLock&) = delete;

  // Holds the block of `at`, and no other.
  void Hold(const std::byte* at) {
    const uintptr_t block = reinterpret_cast<uintptr_t>(at) / kBlockBytes;
    if (flag_ != nullptr && block == block_) return;
    Release();
    block_ = block;
    flag_ = &flags_[block % kFlags].held;
    while (flag_->test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }

 private:
  static constexpr uintptr_t kBlockBytes = 1024;
  static constexpr size_t kFlags = 256;
  struct alignas(64) Flag {
    std::atomic_flag held;
  };
  inline static std::array<Flag, kFlags> flags_;  // blocks share flags; none holds two

  void Release() {
    if (flag_ != nullptr) flag_->clear(std::memory_order_release);
    flag_ = nullptr;
  }

  std::atomic_flag* flag_ = nullptr;
  uintptr_t block_ = 0;
};

}  // namespace remesh::worker
