// SPDX-License-Identifier: Apache-2.0
#include "worker/store/write_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace remesh::worker {
namespace {

using ::testing::HasSubstr;

TEST(WriteNameTest, AStepOrAnyShortPrintableTextIsAName) {
  for (const char* name : {"", "7", "epoch 3, step 120", "~"}) {
    EXPECT_TRUE(CheckWriteName(name).ok()) << name;
  }
  EXPECT_TRUE(CheckWriteName(std::string(kWriteBytesMax, 'x')).ok());
}

TEST(WriteNameTest, WhatIsTooLongOrNotPrintableIsNamed) {
  const absl::Status longer = CheckWriteName(std::string(kWriteBytesMax + 1, 'x'));
  EXPECT_EQ(longer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(longer.message()), HasSubstr("has 65 bytes: must have at most 64"));
  for (const std::string& name :
       {std::string("a\nb"), std::string("\x7f"), std::string("\xe2\x80\xae"), std::string(1, 0)}) {
    const absl::Status refused = CheckWriteName(name);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("must be printable ASCII"));
  }
}

}  // namespace
}  // namespace remesh::worker
