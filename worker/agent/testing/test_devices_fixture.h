// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "worker/agent/testing/agent_fixture.h"
#include "worker/device/testing/test_device.h"

namespace remesh::worker {

// Two hosts with a TestDevice each.
class TestDevicesTest : public AgentTest {
 protected:
  TestDevicesTest() {
    make_devices_ = [this](Transport* woken) {
      std::vector<std::unique_ptr<Device>> devices;
      auto device = std::make_unique<TestDevice>([woken] { woken->Wake(); });
      devices_.push_back(device.get());
      devices.push_back(std::move(device));
      return devices;
    };
    StartBoth();
  }

  std::vector<TestDevice*> devices_;  // by host
};

}  // namespace remesh::worker
