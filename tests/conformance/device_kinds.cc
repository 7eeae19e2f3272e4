// SPDX-License-Identifier: Apache-2.0
// The devices that keep the contract.
#include "tests/conformance/device_conformance.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/host_device.h"
#include "worker/device/testing/sim_device.h"
#include "worker/device/testing/sim_lender.h"

namespace remesh::worker::conformance {
namespace {

DeviceKind Host(std::string name, int threads) {
  return {.name = std::move(name),
          .open =
              [threads](std::function<void()> on_finished) {
                return std::make_unique<HostDevice>(threads, std::move(on_finished));
              },
          .fail = nullptr,
          .limited = false,
          .host_memory = nullptr};
}

DeviceLender LendSim(const Device& device, const std::vector<std::byte>& content) {
  const auto lender = std::make_shared<SimLender>(
      device.uuid(),
      std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
  return {.handle = lender->handle(), .end = [lender] { lender->Die(); }};
}

DeviceKind Sim(std::string name, bool delays) {
  return {.name = std::move(name),
          .open =
              [delays](std::function<void()> on_finished) {
                return std::make_unique<SimDevice>(SimOptions{.seed = 5, .delays = delays},
                                                   std::move(on_finished));
              },
          .fail = [](Device& device) { static_cast<SimDevice&>(device).FailAfter(0); },
          .limited = true,
          .host_memory = nullptr,
          .lend = LendSim};
}

// Memory that no GPU has mapped: the first work that reads it brings its context into error.
void ReadNowhere(Device& device) {
  const TapeView nowhere(reinterpret_cast<std::byte*>(uintptr_t{1} << 46), 0, 1024);
  uint64_t digest = 0;
  device.Pack({{.source = &nowhere, .hi = 1024, .digests = &digest}}, nullptr,
              [](const absl::StatusOr<Mismatch>& result) { EXPECT_FALSE(result.ok()); });
  while (device.pending() > 0) device.Drain();
}

DeviceKind Cuda() {
  return {.name = "First",
          .open = [](std::function<void()> on_finished) -> absl::StatusOr<std::unique_ptr<Device>> {
            auto devices = OpenCudaDevices({{0}, std::move(on_finished)});
            if (!devices.ok()) return devices.status();
            return std::move(devices->front());
          },
          .fail = ReadNowhere,
          .limited = true,
          .host_memory = [](int64_t bytes) { return *AllocatePinned(bytes); }};
}

std::string NameOf(const ::testing::TestParamInfo<DeviceKind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance,
                         ::testing::Values(Host("OneThread", 1), Host("FourThreads", 4)), NameOf);
INSTANTIATE_TEST_SUITE_P(Sim, DeviceConformance,
                         ::testing::Values(Sim("Direct", false), Sim("Delayed", true)), NameOf);
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, ::testing::Values(Cuda()), NameOf);

}  // namespace
}  // namespace remesh::worker::conformance
