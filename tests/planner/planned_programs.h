// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "planner/plan/plan.h"
#include "proto/program/program_proto.h"
#include "tests/testing/random_request.h"

namespace remesh::planner {

// Random plans whose hosts get programs, and the way of a program to its host.

struct PlannedRequest {
  CanonicalizedRequest request;
  Plan plan;
};

// The request of `seed` with its plan, or nullopt where there is none.
inline std::optional<PlannedRequest> PlanOf(uint64_t seed,
                                            const testing::RandomRequestOptions& options = {}) {
  auto request = Canonicalize(testing::RandomRequest(seed, options));
  EXPECT_TRUE(request.ok()) << request.status();
  auto plan = MakePlan(request->canonical);
  if (!plan.ok()) return std::nullopt;
  return PlannedRequest{*std::move(request), *std::move(plan)};
}

// The program as it comes out of the wire's bytes, merged from chunks of about `chunk_bytes`.
inline v1::HostProgram OverTheWire(const proto::NamedProgram& named, size_t chunk_bytes) {
  v1::HostProgram merged;
  proto::WriteProgram(
      named,
      [&](const v1::HostProgram& chunk) {
        v1::HostProgram arrived;
        EXPECT_TRUE(arrived.ParseFromString(chunk.SerializeAsString()));
        EXPECT_LE(chunk.ByteSizeLong(), chunk_bytes + 1000);
        merged.MergeFrom(arrived);
        return true;
      },
      chunk_bytes);
  return merged;
}

}  // namespace remesh::planner
