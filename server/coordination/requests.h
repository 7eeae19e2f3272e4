// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/action.h"
#include "server/coordination/forming.h"
#include "server/coordination/outcome.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {

// Requests of coordination.proto as this folder's values. They are checked as far as that takes no
// knowledge of worlds: INVALID_ARGUMENT names the field, and RESOURCE_EXHAUSTED (TOO_LARGE) a
// payload that is too large.

inline constexpr size_t kPayloadMax = size_t{4} << 20;
inline constexpr size_t kDataMax = size_t{4} << 10;
inline constexpr size_t kNonceBytes = 16;
inline constexpr int kWorldSizeMax = 16'384;
inline constexpr absl::Duration kTimeoutDefault = absl::Seconds(300);
inline constexpr absl::Duration kTimeoutMax = absl::Hours(24);

// OK for a name jobs/{job}/worlds/{world}.
absl::Status CheckScope(const std::string& scope);

struct ExchangeCall {
  Caller caller;
  uint64_t sequence = 0;
  Contribution contribution;
  absl::Duration timeout;
};
absl::StatusOr<ExchangeCall> ExchangeCallOf(const v1::ExchangeRequest& request);

struct StepCall {
  Caller caller;
  int64_t step = 0;
  absl::Duration timeout;
};
absl::StatusOr<StepCall> StepCallOf(const v1::AgreeStepRequest& request);

absl::StatusOr<Caller> CallerOf(const v1::LeaveRequest& request);
// What members are told.
absl::StatusOr<v1::WorldEvent::Preempt> PreemptOf(const v1::ReportPreemptionRequest& request);

// Joins the process of the request, or joins it again. REQUIRES: CheckScope().
absl::Status Join(Registry& registry, SessionId session, const v1::JoinRequest& request,
                  absl::Time now, Actions& actions);

}  // namespace remesh::server::coordination
