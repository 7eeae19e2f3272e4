// SPDX-License-Identifier: Apache-2.0
#include "worker/local/shard_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

using ::testing::ElementsAre;

// Arrays a0, a1, ..., each with a shard on device 10 and one on device 11.
Generation OfArrays(int arrays) {
  Generation generation;
  v1::Assignment& assignment = *generation.manifest.mutable_assignment();
  assignment.set_state("jobs/a/states/b");
  for (int i = 0; i < arrays; ++i) {
    assignment.add_arrays()->set_name(absl::StrCat("a", i));
    for (const int64_t device : {10, 11}) {
      v1::ShardSpec& shard = *assignment.add_shards();
      shard.set_array(i);
      shard.set_device(device);
    }
  }
  return generation;
}

v1::ShardSelector Selector(const std::string& array, const std::vector<int64_t>& devices = {}) {
  v1::ShardSelector selector;
  selector.set_array(array);
  for (const int64_t device : devices) selector.add_devices(device);
  return selector;
}

ShardSelectors Selectors(const std::vector<v1::ShardSelector>& all) {
  return {all.begin(), all.end()};
}

TEST(ShardSelectionTest, AShardIsSelectedOnceByAnySelector) {
  const Generation generation = OfArrays(3);
  const auto select = [&](const std::vector<v1::ShardSelector>& all) {
    return *SelectShards(generation, Selectors(all));
  };
  EXPECT_THAT(select({}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(select({Selector("")}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(select({Selector("a1")}), ElementsAre(2, 3));
  EXPECT_THAT(select({Selector("", {11})}), ElementsAre(1, 3, 5));
  EXPECT_THAT(select({Selector("a2", {11}), Selector("a0", {10}), Selector("a0", {10})}),
              ElementsAre(0, 5));
  EXPECT_THAT(select({Selector("a0", {10}), Selector("a0")}), ElementsAre(0, 1));
  EXPECT_THAT(select({Selector("a0"), Selector("", {10})}), ElementsAre(0, 1, 2, 4));
}

TEST(ShardSelectionTest, TheFirstSelectorThatSelectsNothingIsNamed) {
  const Generation generation = OfArrays(2);
  const auto refusal = [&](const std::vector<v1::ShardSelector>& all) {
    const absl::Status status = SelectShards(generation, Selectors(all)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    return GetErrorInfo(status).metadata;
  };
  auto said = refusal({Selector("a1"), Selector("x", {9}), Selector("y")});
  EXPECT_EQ(said["field"], "shards[1].array");
  EXPECT_EQ(said["value"], "x");
  said = refusal({Selector("a1", {10, 12}), Selector("x")});
  EXPECT_EQ(said["field"], "shards[0].devices[1]");
  EXPECT_EQ(said["value"], "12");
}

// Regression: each selector was compared with each array and each shard, for minutes, while the
// worker did nothing else.
TEST(ShardSelectionTest, ManySelectorsOfManyArrays) {
  constexpr int kMany = 60'000;
  const Generation generation = OfArrays(kMany);
  const std::string last = absl::StrCat("a", kMany - 1);
  std::vector<int64_t> devices(kMany, 11);
  devices.push_back(10);
  const auto selected = SelectShards(
      generation, Selectors(std::vector<v1::ShardSelector>(kMany, Selector(last, {11}))));
  const auto of_devices = SelectShards(generation, Selectors({Selector(last, devices)}));
  EXPECT_THAT(*selected, ElementsAre(2 * kMany - 1));
  EXPECT_THAT(*of_devices, ElementsAre(2 * kMany - 2, 2 * kMany - 1));
}

TEST(ShardSelectionTest, MoreSelectorsThanShardsCanNeedAreRefused) {
  const Generation generation = OfArrays(3);  // and 6 shards
  constexpr int kMost = kSpareSelectors + 2 * (3 + 6);
  std::vector<v1::ShardSelector> all(kMost, Selector("a0"));
  EXPECT_THAT(*SelectShards(generation, Selectors(all)), ElementsAre(0, 1));
  all.back().add_devices(10);
  const absl::Status refused = SelectShards(generation, Selectors(all)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "shards");
  EXPECT_EQ(GetErrorInfo(refused).metadata["value"],
            absl::StrCat(kMost + 1, " selectors and devices"));
}

}  // namespace
}  // namespace remesh::worker
