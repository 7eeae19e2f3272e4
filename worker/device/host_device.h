// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "worker/device/copy_pool.h"
#include "worker/device/device.h"

namespace remesh::worker {

// The host's memory, with a few threads that work on it. They copy and hash each chunk while it is
// in the cache.
class HostDevice final : public Device {
 public:
  // As CopyPool().
  HostDevice(int threads, CopyPool::Notify on_finished) : pool_(threads, std::move(on_finished)) {}

  std::string_view name() const override { return "host"; }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes) override;
  absl::StatusOr<std::shared_ptr<std::byte>> Register(std::span<std::byte> host) override {
    return std::shared_ptr<std::byte>(std::shared_ptr<void>(), host.data());
  }
  void Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) override;
  void Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) override;
  void Copy(std::vector<SlicePart> parts, Done done) override;
  void Check(std::vector<SlicePart> parts, Done done) override;
  void Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) override;
  void CancelQueued() override { pool_.CancelQueued(); }
  bool Drain() override { return pool_.Drain(); }
  int pending() const override { return pool_.pending(); }

 private:
  // Runs `work` on one chunk after the other until it returns false, which makes that chunk the
  // mismatch.
  template <typename Work>
  void Run(std::vector<SlicePart> parts, Work work, Done done);

  CopyPool pool_;
};

}  // namespace remesh::worker
