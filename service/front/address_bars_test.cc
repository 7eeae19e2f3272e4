// SPDX-License-Identifier: Apache-2.0
#include "service/front/address_bars.h"

#include <gtest/gtest.h>

namespace remesh::service {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const AddressBars::Time kStart = AddressBars::Time() + minutes(100);

TEST(AddressBarsTest, ABarEnds) {
  AddressBars bars;
  bars.Bar("a", kStart + seconds(5));
  bars.Bar("a", kStart + seconds(1));  // the longer one holds
  EXPECT_TRUE(bars.IsBarred("a", kStart + seconds(4)));
  EXPECT_FALSE(bars.IsBarred("b", kStart + seconds(4)));
  EXPECT_FALSE(bars.IsBarred("a", kStart + seconds(5)));
}

// Regression: two clients of an address that were ended a second apart had it barred.
TEST(AddressBarsTest, OneIncidentIsNoRepetition) {
  AddressBars bars;
  for (const int second : {0, 1, 9}) EXPECT_FALSE(bars.NoteNoise("a", kStart + seconds(second)));
  EXPECT_TRUE(bars.NoteNoise("a", kStart + seconds(10)));
  EXPECT_FALSE(bars.NoteNoise("b", kStart + seconds(10)));
  EXPECT_TRUE(bars.NoteNoise("a", kStart + minutes(10)));
  EXPECT_FALSE(bars.NoteNoise("a", kStart + minutes(30)));
}

}  // namespace
}  // namespace remesh::service
