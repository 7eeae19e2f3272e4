// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/atoms/atoms.h"
#include "planner/plan/plan_rep.h"
#include "planner/schedule/timeline.h"
#include "planner/values/plan_summary.h"

namespace remesh::planner {

// Packs the results of the steps of MakePlan(), and frees each once it is packed: together with the
// plan they would be the most memory that planning takes. `host_of`: by device.
std::shared_ptr<const PlanRep> Pack(std::vector<int64_t> target_order,
                                    const std::vector<int32_t>& host_of, Atoms atoms,
                                    std::vector<Segment> segments, Timeline timeline,
                                    const Figures& figures, Budget& budget = Budget::Unlimited());

// The inverse, for segments and moves. UnpackedMoves() REQUIRES: CheckRep().
std::vector<Segment> UnpackedSegments(const PlanRep& rep);
Move Unpacked(const PackedMove& move, int32_t round, const Interval& stripe);
std::vector<Move> UnpackedMoves(const PlanRep& rep);

}  // namespace remesh::planner
