// SPDX-License-Identifier: Apache-2.0
#include "planner/values/element_type.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace remesh::planner {
namespace {

TEST(ElementTypeTest, EveryArrayTypeOfXlaRoundTrips) {
  int found = 0;
  for (int number = 1; number <= 36; ++number) {
    if (number == 13 || number == 14 || number == 17 || number == 34) continue;  // not array types
    const auto type = static_cast<ElementType>(number);
    const auto parsed = ParseElementType(Name(type));
    ASSERT_TRUE(parsed.ok()) << number;
    EXPECT_EQ(*parsed, type);
    EXPECT_GE(BitWidth(type), 1);
    ++found;
  }
  EXPECT_EQ(found, 32);
}

TEST(ElementTypeTest, Widths) {
  EXPECT_EQ(BitWidth(ElementType::kBf16), 16);
  EXPECT_EQ(BitWidth(ElementType::kU4), 4);
  EXPECT_EQ(BitWidth(ElementType::kF4E2M1Fn), 4);
  EXPECT_EQ(BitWidth(ElementType::kPred), 8);
  EXPECT_EQ(BitWidth(ElementType::kC128), 128);
}

TEST(ElementTypeTest, UnknownNamesAreRefused) {
  for (const char* name : {"", "BF16", "float32", "tuple", "token", "f8"}) {
    const auto parsed = ParseElementType(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(GetErrorInfo(parsed.status()).metadata.at("field"), "element_type");
  }
}

}  // namespace
}  // namespace remesh::planner
