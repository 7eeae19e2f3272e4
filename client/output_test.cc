// SPDX-License-Identifier: Apache-2.0
#include "client/output.h"

#include <gtest/gtest.h>

#include "base/text/units.h"
#include "planner/report/units.h"

namespace remesh::client {
namespace {

// Tables, certificates and what people write must agree: searching a text for one finds all.
TEST(OutputTest, MicrosecondsHaveOneSpelling) {
  EXPECT_EQ(FormatSeconds(2e-6), "2.0 µs");
  EXPECT_EQ(planner::SecondsText(2.5e-6), "2.5 µs");
  EXPECT_EQ(ParseSeconds("2.5µs").value(), 2.5e-6);
}

}  // namespace
}  // namespace remesh::client
