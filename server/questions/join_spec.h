// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/plan.pb.h"
#include "remesh/v1/state.pb.h"

namespace remesh::server {

// The question "from `source` to `target`" as a PlanSpec. Names of shardings and device lists get
// the prefixes "source." and "target."; the topology is the target's. REQUIRES: both have the same
// arrays in the same order.
v1::PlanSpec JoinSpecs(const v1::StateSpec& source, const v1::StateSpec& target,
                       const v1::PlanOptions& options);

// The two halves of a question.
v1::StateSpec SourceOf(const v1::PlanSpec& spec);
v1::StateSpec TargetOf(const v1::PlanSpec& spec);

}  // namespace remesh::server
