// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/device/device_error.h"
#include "worker/device/host_device.h"

namespace remesh::worker {

// The host's memory, until it gets into a state of error, as a GPU's context may: then nothing
// works any more.
class TestDevice final : public Device {
 public:
  // As HostDevice().
  explicit TestDevice(CopyPool::Notify on_finished) : host_(1, std::move(on_finished)) {}

  std::string_view name() const override { return host_.name(); }
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(int64_t bytes) override {
    if (failed) return Error();
    return host_.Allocate(bytes);
  }
  absl::StatusOr<std::shared_ptr<std::byte>> Register(std::span<std::byte> host) override {
    ++registered;
    return host_.Register(host);
  }
  void Pack(std::vector<SlicePart> parts, std::byte* buffer, Done done) override {
    host_.Pack(std::move(parts), buffer, OrError(std::move(done)));
  }
  void Unpack(std::vector<SlicePart> parts, const std::byte* buffer, Done done) override {
    host_.Unpack(std::move(parts), buffer, OrError(std::move(done)));
  }
  void Copy(std::vector<SlicePart> parts, Done done) override {
    host_.Copy(std::move(parts), OrError(std::move(done)));
  }
  void Check(std::vector<SlicePart> parts, Done done) override {
    ++checks;
    host_.Check(std::move(parts), OrError(std::move(done)));
  }
  void Transfer(std::byte* to, const std::byte* from, int64_t bytes, Done done) override {
    host_.Transfer(to, from, bytes, OrError(std::move(done)));
  }
  void CancelQueued() override { host_.CancelQueued(); }
  bool Drain() override { return host_.Drain(); }
  int pending() const override { return host_.pending(); }

  std::atomic<bool> failed = false;
  std::atomic<int> checks = 0;      // calls of Check()
  std::atomic<int> registered = 0;  // calls of Register()

 private:
  static absl::Status Error() { return DeviceError("test:0", "FAILED", "a test asked for it"); }
  Done OrError(Done done) {
    return [this, done = std::move(done)](absl::StatusOr<Mismatch> result) mutable {
      if (failed) return done(Error());
      done(std::move(result));
    };
  }

  HostDevice host_;
};

}  // namespace remesh::worker
