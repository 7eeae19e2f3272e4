// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/tile_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "absl/hash/hash.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

using ::testing::HasSubstr;
using List = std::vector<int64_t>;

TileAssignment Iota(List dims, List reshape_dims, List perm) {
  auto tiles = TileAssignment::FromIota(dims, reshape_dims, perm);
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  return *std::move(tiles);
}

// `n` as a product of `parts` factors, at random.
List RandomDims(int64_t n, int parts, std::mt19937_64& random) {
  List dims(parts, 1);
  for (int64_t factor = 2; n > 1; ++factor) {
    for (; n % factor == 0; n /= factor) dims[random() % dims.size()] *= factor;
  }
  return dims;
}

TileAssignment RandomIota(std::mt19937_64& random) {
  const int64_t n = List{1, 6, 8, 12, 24, 36}[random() % 6];
  const List reshape_dims = RandomDims(n, 1 + static_cast<int>(random() % 4), random);
  List perm(reshape_dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::shuffle(perm.begin(), perm.end(), random);
  return Iota(RandomDims(n, 1 + static_cast<int>(random() % 4), random), reshape_dims, perm);
}

TileAssignment AsList(const TileAssignment& tiles) {
  return *TileAssignment::FromList(tiles.dims(), tiles.Positions());
}

TEST(TileAssignmentTest, IotaIsNumpysTranspose) {
  EXPECT_EQ(Iota({2, 2}, {4}, {0}).Positions(), (List{0, 1, 2, 3}));
  EXPECT_EQ(Iota({2, 2}, {2, 2}, {1, 0}).Positions(), (List{0, 2, 1, 3}));
  EXPECT_EQ(Iota({6}, {2, 3}, {1, 0}).Positions(), (List{0, 3, 1, 4, 2, 5}));
}

TEST(TileAssignmentTest, IotasAreCanonical) {
  const TileAssignment tiles = Iota({3, 4, 5}, {1, 3, 4, 5}, {3, 0, 1, 2});
  ASSERT_NE(tiles.iota(), nullptr);
  EXPECT_EQ(tiles.iota()->reshape_dims, (List{12, 5}));
  EXPECT_EQ(tiles.iota()->transpose_perm, (List{1, 0}));
  EXPECT_EQ(Iota({1, 1}, {1, 1}, {1, 0}).iota()->reshape_dims, (List{1}));
}

TEST(TileAssignmentTest, ListsAndIotasCompareAndHashEqual) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const TileAssignment iota = RandomIota(random);
    const TileAssignment list = AsList(iota);
    EXPECT_EQ(iota, list);
    EXPECT_EQ(absl::HashOf(iota), absl::HashOf(list));
  }
  EXPECT_FALSE(Iota({2, 2}, {4}, {0}) == Iota({2, 2}, {2, 2}, {1, 0}));
  EXPECT_FALSE(Iota({2, 2}, {4}, {0}) == Iota({4}, {4}, {0}));
}

TEST(TileAssignmentTest, TransposeAndSortDoNotDependOnTheForm) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    const TileAssignment iota = RandomIota(random);
    std::vector<int> perm(iota.dims().size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    EXPECT_EQ(iota.Transpose(perm), AsList(iota).Transpose(perm));
    EXPECT_EQ(iota.SortLastDim(), AsList(iota).SortLastDim());
  }
}

std::string Refusal(const absl::StatusOr<TileAssignment>& tiles) {
  EXPECT_EQ(tiles.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tiles.status().message());
}

TEST(TileAssignmentTest, BadOnesAreRefusedForWhatIsBad) {
  const auto iota = [](const List& dims, const List& reshape_dims, const List& perm) {
    return Refusal(TileAssignment::FromIota(dims, reshape_dims, perm));
  };
  const auto list = [](const List& dims, const List& positions) {
    return Refusal(TileAssignment::FromList(dims, positions));
  };
  EXPECT_THAT(iota({4}, {2, 2}, {0, 0}), HasSubstr("value 0 is repeated"));
  EXPECT_THAT(iota({4}, {2, 2}, {0}), HasSubstr("expected 2, saw 1"));
  EXPECT_THAT(iota({4}, {2, 2}, {0, 2}), HasSubstr("value 2 is out of range"));
  EXPECT_THAT(iota({4}, {3}, {0}),
              HasSubstr("makes 3 devices, but the tile dimensions before it make 4"));
  EXPECT_THAT(iota({0}, {0}, {0}), HasSubstr("tile assignment dimension 0 must be >= 1"));
  EXPECT_TRUE(TileAssignment::FromIota({kPositionsMax}, {kPositionsMax}, {0}).ok());
  EXPECT_TRUE(TileAssignment::FromIota(List(kTileRankMax, 1), {1}, {0}).ok());
  EXPECT_THAT(iota({kPositionsMax, 2}, {2 * kPositionsMax}, {0}), HasSubstr("has more than"));
  EXPECT_THAT(iota(List(kTileRankMax + 1, 1), {1}, {0}), HasSubstr("dimensions, more than"));
  EXPECT_THAT(list({2}, {0, 0}), HasSubstr("device 0 is not unique"));
  EXPECT_THAT(list({2}, {0, -1}), HasSubstr("device -1 is negative"));
  EXPECT_THAT(list({2}, {0}), HasSubstr("number of devices 1 does not match"));
  EXPECT_THAT(list({1}, {3}), HasSubstr("device 3 >= num_devices (1)"));
  EXPECT_TRUE(TileAssignment::FromList({2}, {7, 3}).ok());
}

}  // namespace
}  // namespace remesh::planner
