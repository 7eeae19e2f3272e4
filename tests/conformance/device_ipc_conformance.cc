// SPDX-License-Identifier: Apache-2.0
// Memory that another process has allocated on the device, by the handle of its legacy IPC.
#include "base/error.h"
#include "tests/conformance/device_harness.h"

namespace remesh::worker::conformance {
namespace {

constexpr int64_t kIpcBytes = 5000;

DeviceBytes IpcPattern() {
  DeviceBytes pattern(kIpcBytes);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i * 11 + 3);
  return pattern;
}

// A device and a process that has the pattern on it, or a skipped test.
#define REMESH_OPEN_IPC_DEVICE(rig, lender)                                                \
  REMESH_OPEN_DEVICE(rig);                                                                 \
  if (!GetParam().lend) GTEST_SKIP() << "no other process has memory of this device here"; \
  const DeviceLender lender = GetParam().lend(rig.device(), IpcPattern())

TEST_P(DeviceConformance, WhatAnotherProcessAllocatedIsReadByItsHandle) {
  REMESH_OPEN_IPC_DEVICE(rig, lender);
  const auto memory = rig.device().ImportIpc(lender.handle, kIpcBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(rig.Get(memory->get(), kIpcBytes) == IpcPattern());
}

TEST_P(DeviceConformance, AnAllocationIsOpenedTwiceAndStaysWhileEitherIsThere) {
  REMESH_OPEN_IPC_DEVICE(rig, lender);
  auto first = rig.device().ImportIpc(lender.handle, kIpcBytes);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = rig.device().ImportIpc(lender.handle, kIpcBytes);
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(rig.Get(second->get(), kIpcBytes) == IpcPattern());
}

TEST_P(DeviceConformance, WhatWasClosedIsOpenedAgain) {
  REMESH_OPEN_IPC_DEVICE(rig, lender);
  for (int i = 0; i < 3; ++i) {
    const auto memory = rig.device().ImportIpc(lender.handle, kIpcBytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_TRUE(rig.Get(memory->get(), kIpcBytes) == IpcPattern());
  }
}

TEST_P(DeviceConformance, TheHandleOfAProcessThatEndedIsRefused) {
  REMESH_OPEN_IPC_DEVICE(rig, lender);
  lender.end();
  const auto refused = rig.device().ImportIpc(lender.handle, kIpcBytes);
  EXPECT_EQ(GetErrorInfo(refused.status()).reason, "NO_SUCH_MEMORY") << refused.status();
}

TEST_P(DeviceConformance, MoreThanTheAllocationIsRefused) {
  REMESH_OPEN_IPC_DEVICE(rig, lender);
  for (const int64_t bytes : {int64_t{1} << 34, std::numeric_limits<int64_t>::max()}) {
    const auto refused = rig.device().ImportIpc(lender.handle, bytes);
    EXPECT_EQ(GetErrorInfo(refused.status()).reason, "NO_SUCH_MEMORY") << refused.status();
  }
}

TEST_P(DeviceConformance, WhatIsNoIpcHandleIsRefused) {
  REMESH_OPEN_DEVICE(rig);
  const auto expected = rig.device().uuid().empty() ? absl::StatusCode::kUnimplemented
                                                    : absl::StatusCode::kInvalidArgument;
  for (const std::string& handle : {std::string(), std::string(63, 'x'), std::string(64, '\0'),
                                    std::string(64, '\xFF'), std::string(65, 'x')}) {
    const auto refused = rig.device().ImportIpc(handle, kIpcBytes);
    EXPECT_EQ(refused.status().code(), expected) << refused.status();
  }
  EXPECT_TRUE(rig.device().Allocate(1).ok()) << "the device is in no state of error";
}

}  // namespace
}  // namespace remesh::worker::conformance
