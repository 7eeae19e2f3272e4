// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::worker {

// Assembles assignments that are too large for one message: the parts of one stream wait here for
// the last.
class AssignmentParts {
 public:
  explicit AssignmentParts(int64_t shards_max = 2'000'000) : shards_max_(shards_max) {}

  // RESOURCE_EXHAUSTED (ASSIGNMENT_TOO_LARGE) if more arrays and shards would wait than a host can
  // have; INVALID_ARGUMENT (field "columns") if the part has columns, which only the last message
  // may have.
  absl::Status Add(const v1::Assignment& part);
  // Returns `last`, preceded by the arrays and shards that came for the same state, uid and
  // generation, and removes these from here.
  v1::Assignment Complete(v1::Assignment last);
  // Drops all parts, as their stream has ended.
  void Clear();

 private:
  const int64_t shards_max_;
  int64_t waiting_ = 0;
  std::map<std::tuple<std::string, std::string, int64_t>, v1::Assignment> parts_;
};

}  // namespace remesh::worker
