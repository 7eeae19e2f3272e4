// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "planner/canonical/canonical.h"
#include "proto/convert/plan_counts.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/cached_plan.h"
#include "server/cache/plan_file.h"

namespace remesh::server {

// A cached plan with a caller's names.
struct BoundPlan {
  std::string name;  // plans/{...}
  std::shared_ptr<const CachedPlan> cached;
  planner::Binding binding;
  // The question with an explicit topology, as a serialized v1.PlanSpec: a tenth of the size of the
  // message in memory.
  std::shared_ptr<const std::string> spec;
  proto::PlanCounts counts;
};
using BoundPlanPtr = std::shared_ptr<const BoundPlan>;

// Facts about a plan's name that only the cache knows. Times are whole microseconds, as on disk.
struct NameFacts {
  absl::Time created;
  absl::Time used;
  int64_t hits = 0;
  bool pinned = false;
  std::vector<std::string> states;  // oldest first, see kStatesMax
};
inline constexpr size_t kStatesMax = 16;

// Adds `state` as the last one that used the plan; "" is no state.
void AddState(const std::string& state, NameFacts& facts);

// A plan, and what the cache knows of it.
struct ListedPlan {
  BoundPlanPtr plan;
  NameFacts facts;
  int64_t cached_bytes = 0;
  int32_t users = 0;
};

// The resource of a plan in memory, without transfers. `view`: BASIC or SUMMARY.
v1::Plan ToProto(const ListedPlan& listed, v1::PlanView view = v1::SUMMARY);

// The resource in a list: a SUMMARY lacks the lists of boxes and devices, so it is small.
v1::Plan ToEntry(const ListedPlan& listed, v1::PlanView view);
v1::Plan ToEntry(const PlanFile::Name& name, v1::PlanView view);

// What the disk keeps for lists.
std::string AboutOf(const ListedPlan& listed);
PlanFile::Name ToFileName(const ListedPlan& listed, bool with_spec);

NameFacts FactsOf(const PlanFile::Name& name);

}  // namespace remesh::server
