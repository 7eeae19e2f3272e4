// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "planner/schedule/timeline.h"
#include "proto/program/program_proto.h"
#include "worker/execution/testing/cluster.h"

namespace remesh::worker {

// A request for `hosts` hosts "h0", "h1" ... with `devices_per_host` devices and NICs each,
// numbered as in a TestCase; without arrays.
inline planner::ReshardRequest RequestOfHosts(int hosts, int devices_per_host) {
  planner::ReshardRequest request;
  for (int h = 0; h < hosts; ++h) {
    planner::Host& host = request.topology.hosts.emplace_back();
    host.name = absl::StrCat("h", h);
    for (int d = 0; d < devices_per_host; ++d)
      host.device_ids.push_back(100 + h * devices_per_host + d);
    host.nics = devices_per_host;
    host.nic_bytes_per_second = 1e9;
    host.fabric_bytes_per_second = 1e12;
  }
  return request;
}

// A case for hosts to run, made from the planner's plan for such a request.
struct PlannedCase {
  TestCase test;
  planner::Plan plan;
  std::vector<int64_t> peak_bytes;  // by ordinal
};

inline void AddShards(const planner::ArraySpec& array, int index,
                      const planner::Placement& placement, std::vector<TestShard>& shards) {
  const planner::Layout& layout = *placement.layout;
  for (size_t t = 0; t < layout.tiles.size(); ++t) {
    for (const int32_t position : layout.PositionsOf(t)) {
      const int device = static_cast<int>((*placement.devices)[position]) - 100;
      for (const planner::Box& box : layout.tiles[t].boxes) {
        if (!box.empty()) shards.push_back({index, device, box});
      }
    }
  }
}

inline PlannedCase Planned(const planner::ReshardRequest& request) {
  auto canonical = planner::Canonicalize(request);
  REMESH_CHECK(canonical.ok());
  auto plan = planner::MakePlan(canonical->canonical);
  REMESH_CHECK(plan.ok());
  PlannedCase planned{.test = {}, .plan = *std::move(plan), .peak_bytes = {}};
  TestCase& c = planned.test;
  c.hosts = static_cast<int>(request.topology.hosts.size());
  c.devices_per_host = static_cast<int>(request.topology.hosts.front().device_ids.size());
  c.windows = planned.plan.summary().windows;
  for (size_t a = 0; a < request.arrays.size(); ++a) {
    const planner::ArraySpec& array = request.arrays[a];
    c.arrays.push_back({array.name, array.shape, std::string(planner::Name(array.element_type))});
    AddShards(array, static_cast<int>(a), array.source, c.source);
    AddShards(array, static_cast<int>(a), array.target, c.target);
  }
  c.programs.resize(c.hosts);
  const planner::Binding& binding = canonical->binding;
  for (int h = 0; h < c.hosts; ++h) {
    auto named = proto::ProgramOfHost(planned.plan, canonical->canonical, binding, h);
    named.fingerprint = "print";
    v1::HostProgram& program = c.programs[std::stoi(binding.host_names[h].substr(1))];
    proto::WriteProgram(named, [&](const v1::HostProgram& chunk) {
      program.MergeFrom(chunk);
      return true;
    });
  }
  planned.peak_bytes.resize(binding.device_ids.size());
  for (size_t d = 0; d < binding.device_ids.size(); ++d)
    planned.peak_bytes[binding.device_ids[d] - 100] = planned.plan.peak_bytes()[d];
  return planned;
}

}  // namespace remesh::worker
