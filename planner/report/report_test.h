// SPDX-License-Identifier: Apache-2.0
// Plans whose numbers are known by hand, for the tests of reports.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/make_plan.h"
#include "planner/plan/plan_rep.h"
#include "planner/report/explanation.h"
#include "planner/report/trace.h"
#include "planner/report/traffic.h"

namespace remesh::planner {

using Json = nlohmann::json;

inline Placement Tiles(const Shape& shape, int64_t rows, int64_t columns,
                       int64_t first_device = 0) {
  std::vector<int64_t> numbers;
  DeviceList ids;
  for (int64_t i = 0; i < rows * columns; ++i) {
    numbers.push_back(i);
    ids.push_back(first_device + i);
  }
  std::vector<DimPartition> partitions = {TilePartition(shape[0], rows),
                                          TilePartition(shape[1], columns)};
  return {.layout = std::make_shared<Layout>(MakeSeparableLayout(shape, partitions, numbers)),
          .devices = std::make_shared<DeviceList>(ids)};
}

// Devices 2i and 2i + 1 on host i, one NIC of 1 GB/s each.
inline ReshardRequest Hosts(const std::vector<std::string>& names) {
  ReshardRequest request;
  for (size_t i = 0; i < names.size(); ++i) {
    const int64_t id = 2 * static_cast<int64_t>(i);
    request.topology.hosts.push_back({.name = names[i],
                                      .device_ids = {id, id + 1},
                                      .nic_bytes_per_second = 1e9,
                                      .nics = 1,
                                      .fabric_bytes_per_second = 1e11});
  }
  return request;
}

// Rows to columns of n x n bf16 over two hosts: each host already holds half of what it needs.
inline ReshardRequest RowsToColumns(int64_t n, const std::vector<std::string>& names = {"a", "b"}) {
  ReshardRequest request = Hosts(names);
  const Shape shape = {n, n};
  request.arrays.push_back({.name = "w",
                            .shape = shape,
                            .element_type = ElementType::kBf16,
                            .source = Tiles(shape, 4, 1),
                            .target = Tiles(shape, 1, 4)});
  return request;
}

struct ReportedPlan {
  CanonicalRequest request;
  Binding binding;
  Plan plan;

  Traffic traffic(const TrafficOptions& options = {}) const {
    return TrafficOf(request, plan, binding, AlikeOf(explanation().domains, binding), options);
  }
  Explanation explanation() const { return *Explain(request, plan, binding); }
  Json trace(const TraceOptions& options = {}) const {
    return Json::parse(ChromeTrace(request, plan, binding, options));
  }
};

inline ReportedPlan PlanOf(const ReshardRequest& request) {
  auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto plan = MakePlan(canonical->canonical);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return {canonical->canonical, canonical->binding, *plan};
}

}  // namespace remesh::planner
