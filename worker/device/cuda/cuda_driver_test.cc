// SPDX-License-Identifier: Apache-2.0
#include "worker/device/cuda/cuda_driver.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace remesh::worker {
namespace {

TEST(CudaDriverTest, Cuda13NeedsDriver580) {
  EXPECT_TRUE(CheckCudaDriver({.driver = 13000, .runtime = 13000}, "580.65.06").ok());
  EXPECT_TRUE(CheckCudaDriver({.driver = 13020, .runtime = 13000}, "").ok());
  // A later minor version of the runtime runs on an earlier one of the driver.
  EXPECT_TRUE(CheckCudaDriver({.driver = 13000, .runtime = 13020}, "580.65.06").ok());
  const absl::Status old = CheckCudaDriver({.driver = 12080, .runtime = 13000}, "570.86.10");
  EXPECT_EQ(old.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(old.message(),
            "CUDA 13.0 needs NVIDIA driver 580 or later; driver 570.86.10 knows CUDA 12.8 at most");
  EXPECT_EQ(GetErrorInfo(old).reason, "CUDA_DRIVER_TOO_OLD");
  EXPECT_EQ(GetErrorInfo(old).metadata.at("needed_release"), "580");
  EXPECT_EQ(GetErrorInfo(old).metadata.at("release"), "570.86.10");
}

TEST(CudaDriverTest, NoDriverIsSaid) {
  const absl::Status none = CheckCudaDriver({.driver = 0, .runtime = 12080}, "");
  EXPECT_EQ(none.message(), "CUDA 12.8 needs NVIDIA driver 525 or later; none is loaded");
  EXPECT_EQ(GetErrorInfo(none).reason, "NO_CUDA_DRIVER");
}

TEST(CudaDriverTest, TheReleaseIsInTheVersionFile) {
  EXPECT_EQ(ReleaseIn("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan  2\n"
                      "GCC version:  gcc version 12.2.0\n"),
            "570.86.10");
  EXPECT_EQ(ReleaseIn("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release "
                      "Build\n"),
            "580.65.06");
  EXPECT_EQ(ReleaseIn(""), "");
  EXPECT_EQ(ReleaseIn("GCC version"), "");
}

}  // namespace
}  // namespace remesh::worker
