// SPDX-License-Identifier: Apache-2.0
// Memory of a device that other processes have too, as they see it: by its handle alone.
#include <fcntl.h>

#include "tests/conformance/device_harness.h"

namespace remesh::worker::conformance {
namespace {

constexpr int64_t kBytes = 5000;

DeviceBytes Pattern(size_t bytes) {
  DeviceBytes pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 7 + 1);
  return pattern;
}

// A device that shares memory, or a skipped test.
#define REMESH_OPEN_SHARING_DEVICE(rig)                                     \
  REMESH_OPEN_DEVICE(rig);                                                  \
  if (absl::IsUnimplemented(rig.device().Share(1).status())) {              \
    EXPECT_EQ(rig.device().uuid(), "");                                     \
    EXPECT_TRUE(absl::IsUnimplemented(rig.device().Import(0, 1).status())); \
    GTEST_SKIP() << "it shares none";                                       \
  }

TEST_P(DeviceConformance, SharedMemoryIsZero) {
  REMESH_OPEN_SHARING_DEVICE(rig);
  const auto shared = rig.device().Share(kBytes);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_TRUE(rig.Get(shared->memory.get(), kBytes) == DeviceBytes(kBytes));
  EXPECT_NE(rig.device().uuid(), "");
}

TEST_P(DeviceConformance, WhoImportsSeesWhatTheMakerWrites) {
  REMESH_OPEN_SHARING_DEVICE(rig);
  const auto shared = rig.device().Share(kBytes);
  ASSERT_TRUE(shared.ok()) << shared.status();
  const auto imported = rig.device().Import(shared->handle.get(), kBytes);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_NE(imported->get(), shared->memory.get());
  const DeviceBytes pattern = Pattern(kBytes);
  rig.Write(shared->memory.get(), pattern);
  EXPECT_TRUE(rig.Get(imported->get(), kBytes) == pattern);
}

TEST_P(DeviceConformance, SharedMemoryOutlivesItsMakersMapping) {
  REMESH_OPEN_SHARING_DEVICE(rig);
  Fd handle;
  {
    auto shared = rig.device().Share(kBytes);
    ASSERT_TRUE(shared.ok()) << shared.status();
    rig.Write(shared->memory.get(), Pattern(kBytes));
    handle = std::move(shared->handle);
  }
  const auto again = rig.device().Import(handle.get(), kBytes);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(rig.Get(again->get(), kBytes) == Pattern(kBytes));
}

TEST_P(DeviceConformance, HandlesOfNoMemoryAreRefused) {
  REMESH_OPEN_SHARING_DEVICE(rig);
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(rig.device().Import(null.get(), kBytes).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(rig.device().Import(-1, kBytes).status()));
  const auto shared = rig.device().Share(kBytes);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_TRUE(absl::IsInvalidArgument(
      rig.device().Import(shared->handle.get(), int64_t{1} << 34).status()));
}

TEST_P(DeviceConformance, MoreSharedMemoryThanThereIsIsRefused) {
  REMESH_OPEN_SHARING_DEVICE(rig);
  const auto refused = rig.device().Share(int64_t{1} << 46);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
}

}  // namespace
}  // namespace remesh::worker::conformance
