// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

// The contract of worker/device/device.h as tests. A device joins by one INSTANTIATE_TEST_SUITE_P
// of DeviceConformance with a kind of its own.
namespace remesh::worker::conformance {

// Another process that has memory of a device.
struct DeviceLender {
  std::string handle;
  std::function<void()> end;  // of the process, at the latest with the last copy of this
};

struct DeviceKind {
  std::string name;
  // A status where this machine has no such device: then the tests are skipped.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(std::function<void()> on_finished)> open;
  // Brings the device into a state of error; null: it has none.
  std::function<void(Device&)> fail;
  // Its memory ends.
  bool limited = true;
  // Host memory that its parts may lie in; null: any.
  std::function<std::shared_ptr<std::byte>(int64_t bytes)> host_memory;
  // Has another process allocate and fill memory of the device; null: tests have none.
  std::function<DeviceLender(const Device&, const std::vector<std::byte>& content)> lend = nullptr;

  friend std::ostream& operator<<(std::ostream& out, const DeviceKind& kind) {
    return out << kind.name;
  }
};

class DeviceConformance : public testing::TestWithParam<DeviceKind> {};

}  // namespace remesh::worker::conformance
