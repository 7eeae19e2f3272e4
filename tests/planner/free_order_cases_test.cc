// SPDX-License-Identifier: Apache-2.0
// Free target orders that others have published figures for, against optima found without the
// planner.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "planner/canonical/canonical.h"
#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "planner/order/assignment.h"
#include "planner/order/free_order.h"
#include "planner/plan/plan.h"
#include "planner/validate.h"
#include "tests/benchmark/planner_cases.h"
#include "tests/planner/planned.h"

namespace remesh::planner {
namespace {

// Bytes that stay in place when flat shards over devices 0 .. from-1 become flat shards over
// devices 0 .. to-1 and slot l goes to device matching[l]; by XLA's rule for tiles, from nothing of
// the planner's.
class FlatOverlaps {
 public:
  FlatOverlaps(const ReshardRequest& request, int64_t from, int64_t to) {
    const int64_t devices = std::min(from, to);
    std::map<std::pair<int64_t, int64_t>, int64_t> bytes;
    for (const ArraySpec& array : request.arrays) {
      const int64_t extent = array.shape[0];
      const int64_t source = (extent + from - 1) / from, target = (extent + to - 1) / to;
      for (int64_t slot = 0; slot < to; ++slot) {
        const int64_t lo = std::min(slot * target, extent), hi = std::min(lo + target, extent);
        for (int64_t device = lo / source; device < std::min(devices, from) && device * source < hi;
             ++device) {
          const int64_t both = std::min(hi, (device + 1) * source) - std::max(lo, device * source);
          if (both > 0) bytes[{slot, device}] += both * BitWidth(array.element_type) / 8;
        }
      }
    }
    for (const auto& [pair, both] : bytes) {
      edges_.push_back({static_cast<int32_t>(pair.first), static_cast<int32_t>(pair.second), both});
    }
    const int32_t slots = static_cast<int32_t>(to);
    const std::vector<int32_t> matching = MaxWeightMatching(slots, slots, edges_);
    for (const WeightedEdge& edge : edges_) {
      if (matching[edge.left] == edge.right) most_kept_ += static_cast<int64_t>(edge.weight);
    }
  }

  int64_t most_kept() const { return most_kept_; }

 private:
  std::vector<WeightedEdge> edges_;
  int64_t most_kept_ = 0;
};

// Least of all: the bytes of the assignment optimum. That is of MaxWeightMatching(), whose own test
// proves it by prices.
TEST(FreeOrderCasesTest, AFreeOrderMovesNoMoreOfFlatShardsThanTheAssignmentOptimum) {
  struct Case {
    int64_t from, to;
    double share;
  };
  for (const Case& c : {Case{1024, 1016, 0.260}, Case{128, 120, 0.310}, Case{64, 72, 0.278},
                        Case{512, 1024, 0.500}}) {
    SCOPED_TRACE(c.from);
    ReshardRequest request = testing::RequestOf(testing::FlatSpec(c.from, c.to, false));
    request.options.free_target_order = true;
    const PlanSummary summary = PlanFor(request).plan.summary();
    EXPECT_NEAR(MovedShare(summary), c.share, 0.0006);
    EXPECT_LE(summary.quality, 1.001);
    const int64_t most = FlatOverlaps(request, c.from, c.to).most_kept();
    EXPECT_LE(summary.kept_bytes, most);
    EXPECT_GE(static_cast<double>(summary.kept_bytes), (1 - 1e-4) * static_cast<double>(most));
  }
}

// Blocks of a matrix dealt cyclically to a grid of one-device hosts, as ScaLAPACK does; rank is
// row * columns + column, or column * rows + row.
Placement BlockCyclic(int64_t blocks, int64_t block, int64_t rows, int64_t columns,
                      bool column_major) {
  std::vector<std::vector<Box>> boxes(rows * columns);
  auto ids = std::make_shared<DeviceList>();
  for (int64_t i = 0; i < blocks; ++i) {
    for (int64_t j = 0; j < blocks; ++j) {
      const int64_t row = i % rows, column = j % columns;
      boxes[column_major ? column * rows + row : row * columns + column].push_back(
          Box{.dims = {{i * block, (i + 1) * block}, {j * block, (j + 1) * block}}});
    }
  }
  for (int64_t rank = 0; rank < rows * columns; ++rank) ids->push_back(rank);
  const Shape shape = {blocks * block, blocks * block};
  auto layout = MakeBoxLayout(shape, boxes);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return {std::make_shared<const Layout>(*std::move(layout)), std::move(ids)};
}

ReshardRequest BlockCyclicCase(const Placement& source, const Placement& target) {
  ReshardRequest request;
  for (int64_t id : *source.devices) {
    request.topology.hosts.push_back({.name = absl::StrCat("rank", id),
                                      .device_ids = {id},
                                      .nic_bytes_per_second = 1e9,
                                      .fabric_bytes_per_second = 1e11});
  }
  request.arrays = {{.name = "a",
                     .shape = source.layout->shape,
                     .element_type = ElementType::kF64,
                     .source = source,
                     .target = target}};
  return request;
}

// COSTA's README: 100 x 100 blocks from a grid of 2 x 4 ranks to one of 4 x 2. An optimal
// relabelling spares a third of the traffic; its own finds a sixth. Blocks are 10 wide here, not
// 1000: of both only the ratio counts.
TEST(FreeOrderCasesTest, CostasExampleIsSparedAThirdOfItsTraffic) {
  ReshardRequest request =
      BlockCyclicCase(BlockCyclic(100, 10, 2, 4, false), BlockCyclic(100, 10, 4, 2, false));
  EXPECT_DOUBLE_EQ(MovedShare(PlanFor(request).plan.summary()), 0.75);
  request.options.free_target_order = true;
  const Planned freed = PlanFor(request);
  EXPECT_DOUBLE_EQ(MovedShare(freed.plan.summary()), 0.50);
  const absl::Status valid = ValidatePlan(freed.plan, freed.request);
  EXPECT_TRUE(valid.ok()) << valid;
}

// The same blocks, ranks numbered by rows before and by columns after: nothing needs to move.
TEST(FreeOrderCasesTest, ARowMajorGridThatBecomesColumnMajorMovesNothing) {
  ReshardRequest request =
      BlockCyclicCase(BlockCyclic(16, 4, 8, 8, false), BlockCyclic(16, 4, 8, 8, true));
  EXPECT_DOUBLE_EQ(MovedShare(PlanFor(request).plan.summary()), 1 - 8.0 / 64);
  request.options.free_target_order = true;
  EXPECT_DOUBLE_EQ(MovedShare(PlanFor(request).plan.summary()), 0);
}

// A lookup is to name the request and to find the plan under that name, wherever it is kept: orders
// are chosen by planning alone.
TEST(FreeOrderCasesTest, LookingAPlanUpSolvesNoAssignment) {
  ReshardRequest request = testing::RequestOf(testing::FlatSpec(64, 72, false));
  request.options.free_target_order = true;
  const int64_t before = TargetOrdersChosen();
  const auto asked = Canonicalize(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(TargetOrdersChosen() - before, 0);
  const auto plan = MakePlan(asked->canonical);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(TargetOrdersChosen() - before, 1);
  EXPECT_FALSE(plan->target_order().empty());

  const std::string kept = EncodePlan(asked->canonical, *plan);
  const auto again = Canonicalize(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->canonical.fingerprint, asked->canonical.fingerprint);
  const auto found = DecodePlan(kept);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->plan == *plan);
  EXPECT_EQ(found->plan.target_order(), plan->target_order());
  EXPECT_EQ(TargetOrdersChosen() - before, 1);
}

}  // namespace
}  // namespace remesh::planner
