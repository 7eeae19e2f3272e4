// SPDX-License-Identifier: Apache-2.0
#include "planner/values/block_sort.h"

#include <gtest/gtest.h>

#include <random>

namespace remesh::planner {
namespace {

struct Keyed {
  int32_t key = 0;
  int32_t number = 0;

  friend bool operator==(const Keyed&, const Keyed&) = default;
};

// `count` values of random keys below `keys`, of which small ones are more frequent.
std::vector<Keyed> RandomValues(int32_t count, int32_t keys) {
  std::mt19937 random(static_cast<uint32_t>(count * 31 + keys));
  std::vector<Keyed> values;
  for (int32_t i = 0; i < count; ++i) {
    const auto below = static_cast<int32_t>(1 + random() % static_cast<uint32_t>(keys));
    values.push_back({static_cast<int32_t>(random() % static_cast<uint32_t>(below)), i});
  }
  return values;
}

TEST(BlockSortTest, SortsByKeyAndKeepsTheOrderOfEquals) {
  for (const int32_t keys : {1, 2, 7, 100, 5000}) {
    for (const int32_t count : {0, 1, 5, 63, 64, 65, 1000, 4096, 100'000}) {
      std::vector<Keyed> values = RandomValues(count, keys);
      std::vector<Keyed> expected = values;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
      BlockSort<Keyed>(values, keys, Budget::Unlimited()).Run([](const Keyed& v) { return v.key; });
      EXPECT_EQ(values, expected) << keys << " keys, " << count << " values";
    }
  }
}

TEST(BlockSortTest, TakesNoMemoryForAnotherCopy) {
  std::vector<Keyed> values = RandomValues(100'000, 10);
  const Keyed* const before = values.data();
  BlockSort<Keyed>(values, 10, Budget::Unlimited()).Run([](const Keyed& v) { return v.key; });
  EXPECT_EQ(values.data(), before);
}

TEST(BlockSortTest, EndsWhenTheBudgetIsSpent) {
  std::vector<Keyed> values = RandomValues(100'000, 10);
  int64_t looks = 0;
  Budget budget([&] { return ++looks < 3 ? absl::OkStatus() : absl::CancelledError("enough"); });
  BlockSort<Keyed>(values, 10, budget).Run([](const Keyed& v) { return v.key; });
  EXPECT_EQ(looks, 3);
}

}  // namespace
}  // namespace remesh::planner
