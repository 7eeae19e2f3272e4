// SPDX-License-Identifier: Apache-2.0
#include "planner/report/scope.h"

#include <gtest/gtest.h>

#include "planner/report/report_test.h"

namespace remesh::planner {
namespace {

TEST(ScopeTest, CountsDevicesAndHostsOfBothSides) {
  ReshardRequest request = Hosts({"a", "b", "c"});
  const Shape shape = {8, 8};
  for (const char* name : {"v", "w"}) {
    request.arrays.push_back({.name = name,
                              .shape = shape,
                              .element_type = ElementType::kBf16,
                              .source = Tiles(shape, 4, 1),
                              .target = Tiles(shape, 2, 1, /*first_device=*/3)});
  }
  const Scope scope = ScopeOf(PlanOf(request).request);
  EXPECT_EQ(scope.arrays, 2);
  EXPECT_EQ(scope.bytes, 2 * 128);
  EXPECT_EQ(scope.devices, (Scope::Sides{.source = 4, .target = 2, .both = 1}));
  EXPECT_EQ(scope.hosts, (Scope::Sides{.source = 2, .target = 2, .both = 1}));
}

TEST(ScopeTest, BitsOfNarrowTypesArePacked) {
  ReshardRequest request = Hosts({"a", "b"});
  const Shape shape = {4, 1};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .element_type = ElementType::kS2,
                            .source = Tiles(shape, 4, 1),
                            .target = Tiles(shape, 1, 1)});
  EXPECT_EQ(ScopeOf(PlanOf(request).request).bytes, 1);
}

TEST(TitleTest, SaysWhatMoves) {
  const Scope shrink{.arrays = 3, .bytes = 12'000'000'000, .devices = {1024, 1016, 1016}};
  EXPECT_EQ(TitleOf(shrink, ""), "3 arrays, 12 GB: 1,024 → 1,016 devices");
  EXPECT_EQ(TitleOf(shrink, "llama"), "llama: 1,024 → 1,016 devices");
  const Scope same{.arrays = 1, .bytes = 64, .devices = {1, 1, 1}};
  EXPECT_EQ(TitleOf(same, ""), "1 array, 64 B: resharded over 1 device");
}

}  // namespace
}  // namespace remesh::planner
