// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/controller/states/pending_creates.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/controller_options.h"

namespace remesh::server {

// How much there may be of states: of one job, and of all jobs together. States that are being
// created count. A state that moves counts as the larger of its source and its target. Looks at all
// states in each check. Not thread-safe.
class StateLimits {
 public:
  // All must outlive this.
  StateLimits(const ControllerOptions& options, const StateRegistry& registry,
              const PendingCreates& creates)
      : options_(options), registry_(registry), creates_(creates) {}

  // RESOURCE_EXHAUSTED (JOB_QUOTA, TOO_MANY_STATES, TOO_MANY_ARRAYS): its job, or all states
  // together, may not have as much as with this state.
  absl::Status CheckCreate(const std::string& name, const PlacedState& placed) const;
  // RESOURCE_EXHAUSTED (JOB_QUOTA, TOO_MANY_ARRAYS): the same after this move.
  absl::Status CheckMove(const StateEntry& state, const PlacedState& target) const;

 private:
  absl::Status CheckQuota(const std::string& name, int64_t more_states, int64_t more_bytes) const;
  absl::Status CheckStates() const;
  absl::Status CheckEntries(int64_t more) const;

  const ControllerOptions& options_;
  const StateRegistry& registry_;
  const PendingCreates& creates_;
};

}  // namespace remesh::server
