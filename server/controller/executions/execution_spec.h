// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/placed.h"

namespace remesh::server {

// A host of an execution.
struct Participant {
  std::string host;
  std::shared_ptr<const PlacedState> target;  // null on a host that only sends
  std::vector<int64_t> device_ids;            // of the host, in local order

  bool receives() const { return target != nullptr; }
};

// The constant part of an execution.
struct ExecutionSpec {
  v1::AttemptId attempt;
  std::string fingerprint;
  bool write_once = false;       // of the state
  std::string plan_digest = "";  // see Prepare
  int64_t window_bytes = 0;
  int32_t grant_ahead = 8;       // windows that may be granted beyond those done everywhere
  Timestamp deadline{0};         // on the clock of Moment::steady
  Timestamp stall_timeout{0};    // limit for transfers without any progress; 0: none
  Timestamp quiesce_timeout{0};  // limit for workers to end an attempt
  std::vector<Participant> participants;  // by host: those with shards of source or target
  std::vector<std::vector<int32_t>> exchanges = {};  // by participant: see PlannedExecution
};

}  // namespace remesh::server
