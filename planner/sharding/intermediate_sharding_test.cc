// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/intermediate_sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/sdy_text.h"
#include "planner/sharding/to_layout.h"

namespace remesh::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HloSharding Hlo(const std::string& text) {
  auto sharding = ParseHloSharding(text);
  EXPECT_TRUE(sharding.ok()) << sharding.status();
  return *sharding;
}

HloSharding Sdy(const std::string& text) {
  auto sharding = ParseSdySharding(text);
  EXPECT_TRUE(sharding.ok()) << sharding.status();
  return {.form = *sharding};
}

Layout LayoutOf(const HloSharding& sharding, const Shape& shape, int32_t devices) {
  auto layout = ToLayout(sharding, shape, devices);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

// The purpose of the intermediate sharding: few shards, each on several devices, and every device
// keeps what it holds.
void ExpectEveryDeviceKeepsItsBox(const HloSharding& source, const IntermediateSharding& result,
                                  int32_t devices, const Shape& shape) {
  const Layout before = LayoutOf(source, shape, devices);
  const Layout after = LayoutOf(result.sharding, shape, devices);
  for (int32_t i = 0; i < devices; ++i) {
    EXPECT_TRUE(BoxesOf(after, i)[0].Contains(BoxesOf(before, i)[0])) << "device " << i;
  }
  int64_t tiles = 1;
  for (const int64_t count : result.target_tiles) tiles *= count;
  EXPECT_EQ(static_cast<int64_t>(after.tiles.size()), tiles);
  for (size_t t = 0; t < after.tiles.size(); ++t) {
    EXPECT_EQ(static_cast<int64_t>(after.PositionsOf(t).size()), devices / tiles);
  }
}

TEST(IntermediateShardingTest, FsdpToTensorParallelSplitsInFourWithTwoReplicas) {
  const HloSharding source = Sdy(R"(#sdy.sharding<mesh<["fsdp"=8, "tp"=1]>, [{"fsdp"}, {"tp"}]>)");
  const HloSharding target = Sdy(R"(#sdy.sharding<mesh<["fsdp"=1, "tp"=4]>, [{"fsdp"}, {"tp"}]>)");
  const auto result = FindIntermediateSharding(source, target);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->tiles, ElementsAre(4, 1));
  EXPECT_EQ(result->replicas, 2);
  EXPECT_THAT(result->replicated_axes, ElementsAre("fsdp_intermediate_replica"));
  EXPECT_EQ(PrintSdySharding(std::get<NamedSharding>(result->sharding.form)),
            R"(#sdy.sharding<mesh<["fsdp_intermediate_split"=4, "fsdp_intermediate_replica"=2, )"
            R"("tp"=1]>, [{"fsdp_intermediate_split"}, {"tp"}], )"
            R"(replicated={"fsdp_intermediate_replica"}>)");
  ExpectEveryDeviceKeepsItsBox(source, *result, 8, {16, 16});
}

TEST(IntermediateShardingTest, TilesWithoutNamesWork) {
  const HloSharding source = Hlo("{devices=[8,1]<=[8]}");
  const auto result = FindIntermediateSharding(source, Hlo("{devices=[1,4]<=[4]}"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(PrintHloSharding(result->sharding), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  ExpectEveryDeviceKeepsItsBox(source, *result, 8, {16, 16});
}

TEST(IntermediateShardingTest, ListsOfDevicesAndSubgroupsWork) {
  const HloSharding source = Hlo("{devices=[4,1,2]0,3,2,1,5,4,7,6 last_tile_dim_replicate}");
  const auto result = FindIntermediateSharding(source, Hlo("{replicated}"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(PrintHloSharding(result->sharding), "{replicated}");
  EXPECT_EQ(result->replicas, 4);
  const auto half = FindIntermediateSharding(source, Hlo("{devices=[1,2]<=[2]}"));
  ASSERT_TRUE(half.ok()) << half.status();
  ExpectEveryDeviceKeepsItsBox(source, *half, 8, {8, 8});
}

TEST(IntermediateShardingTest, ADimensionOverSeveralAxesIsCutInItsMinorOnes) {
  const HloSharding target = Hlo("{devices=[1,4]<=[4]}");
  for (const char* mesh : {R"(["a"=2, "b"=8])", R"(["a"=4, "b"=4])", R"(["a"=8, "b"=2])"}) {
    const HloSharding source =
        Sdy(absl::StrCat("#sdy.sharding<mesh<", mesh, R"(>, [{"a", "b"}, {}]>)"));
    const auto result = FindIntermediateSharding(source, target);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->tiles, ElementsAre(4, 1));
    ExpectEveryDeviceKeepsItsBox(source, *result, 16, {32, 32});
  }
}

TEST(IntermediateShardingTest, SeveralAxesGiveUpWholeOnesByName) {
  const auto result = FindIntermediateSharding(
      Sdy(R"(#sdy.sharding<mesh<["dp"=4, "fsdp"=8]>, [{"dp", "fsdp"}, {}]>)"),
      Hlo("{devices=[1,2]<=[2]}"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->replicated_axes, ElementsAre("dp_intermediate_replica", "fsdp"));
}

TEST(IntermediateShardingTest, AxesInAnotherOrderOfDevicesWork) {
  const HloSharding source = Sdy(
      R"(#sdy.sharding<mesh<["dp"=2, "fsdp"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>, [{"fsdp", "dp"}, {}]>)");
  const auto result = FindIntermediateSharding(source, Hlo("{devices=[1,2]<=[2]}"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->replicated_axes, ElementsAre("fsdp_intermediate_replica", "dp"));
  ExpectEveryDeviceKeepsItsBox(source, *result, 8, {8, 8});
}

TEST(IntermediateShardingTest, SubAxesStaySubAxes) {
  const HloSharding source = Sdy(R"(#sdy.sharding<mesh<["x"=16]>, [{"x":(1)8}, {}]>)");
  const auto result = FindIntermediateSharding(source, Hlo("{devices=[1,4]<=[4]}"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->replicated_axes, ElementsAre("x:(4)2"));
  ExpectEveryDeviceKeepsItsBox(source, *result, 16, {16, 16});
}

TEST(IntermediateShardingTest, RandomMeshesKeepTheLaw) {
  const Shape shape(3, 20736);  // divisible by all tiles of four axes of up to 4
  std::mt19937_64 random(1);
  int found = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<MeshAxis> axes;
    NamedSharding named{.dims = std::vector<NamedSharding::Dim>(3)};
    int64_t devices = 1;
    for (int64_t a = 0; a < 4; ++a) {
      axes.push_back(
          {std::string(1, static_cast<char>('a' + a)), static_cast<int64_t>(random() % 4 + 1)});
      devices *= axes.back().size;
      const size_t dim = random() % 4;  // the last: replicated
      if (dim < 3) named.dims[dim].axes.push_back({a, std::nullopt});
    }
    named.mesh = *MakeMesh(axes);
    Tiled tiled;
    const int64_t wanted = static_cast<int64_t>(random() % 8 + 1);
    std::vector<int64_t> dims = {1, 1, 1};
    dims[random() % 3] = wanted;
    tiled.tiles = *TileAssignment::FromIota(dims, {wanted}, {0});
    const HloSharding source{.form = *Canonicalized(named)};
    const auto result = FindIntermediateSharding(source, {.form = tiled});
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ++found;
    ExpectEveryDeviceKeepsItsBox(source, *result, static_cast<int32_t>(devices), shape);
    const HloSharding tiles{.form = ToTiles(std::get<NamedSharding>(source.form))};
    const auto same = FindIntermediateSharding(tiles, {.form = tiled});
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->tiles, result->tiles);
    ExpectEveryDeviceKeepsItsBox(tiles, *same, static_cast<int32_t>(devices), shape);
  }
  EXPECT_GT(found, 100);
}

TEST(IntermediateShardingTest, SeveralDimensionsShareTheFactor) {
  const auto tiles = IntermediateTiles({4, 9, 1}, {1, 1, 3});
  ASSERT_TRUE(tiles.ok()) << tiles.status();
  EXPECT_THAT(*tiles, ElementsAre(1, 3, 1));
}

void ExpectRefused(std::vector<int64_t> source, std::vector<int64_t> target,
                   const std::string& reason, const std::string& words) {
  const auto tiles = IntermediateTiles(source, target);
  ASSERT_FALSE(tiles.ok());
  EXPECT_EQ(tiles.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorInfo(tiles.status()).reason, reason);
  EXPECT_THAT(std::string(tiles.status().message()), HasSubstr(words));
}

TEST(IntermediateShardingTest, SaysWhyThereIsNone) {
  constexpr char kNone[] = "NO_INTERMEDIATE_SHARDING";
  ExpectRefused({8, 1}, {4}, kNone, "same rank");
  ExpectRefused({8, 1}, {1, 3}, kNone, "undividable");
  ExpectRefused({4, 1}, {1, 4}, kNone, "not larger than");
  ExpectRefused({6, 1, 1}, {1, 2, 2}, kNone, "not divisible");
  ExpectRefused({8, 3}, {1, 4}, kNone, "no suitable dimension");
}

TEST(IntermediateShardingTest, SaysWhenNoneIsNeeded) {
  ExpectRefused({8, 1}, {4, 1}, "NO_INTERMEDIATE_SHARDING_NEEDED", "can stay sharded");
  ExpectRefused({8, 2}, {1, 2}, "NO_INTERMEDIATE_SHARDING_NEEDED", "dimension 1");
}

TEST(IntermediateShardingTest, RefusesWhatIsNotTiles) {
  for (const char* text : {"{maximal device=0}", "{manual}", "{unknown}", "{unreduced}"}) {
    const auto result = FindIntermediateSharding(Hlo(text), Hlo("{devices=[1,4]<=[4]}"));
    EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << text;
  }
  const auto uncut = FindIntermediateSharding(
      Sdy(R"(#sdy.sharding<mesh<["a"=3, "b"=4]>, [{"a", "b"}, {}]>)"), Hlo("{devices=[1,2]<=[2]}"));
  EXPECT_THAT(std::string(uncut.status().message()), HasSubstr("cannot be cut at 2 of 12 tiles"));
}

}  // namespace
}  // namespace remesh::planner
