// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/forming.h"
#include "server/coordination/process.h"
#include "server/coordination/registry.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

// Conversion between the messages of coordination.proto and this folder's values. Requests are
// checked as far as that takes no knowledge of worlds: INVALID_ARGUMENT names the field, and
// RESOURCE_EXHAUSTED (TOO_LARGE) a payload that is too large.

inline constexpr size_t kPayloadMax = size_t{4} << 20;
inline constexpr size_t kDataMax = size_t{4} << 10;
inline constexpr size_t kNonceBytes = 16;
inline constexpr int kWorldSizeMax = 16'384;
inline constexpr absl::Duration kTimeoutDefault = absl::Seconds(300);
inline constexpr absl::Duration kTimeoutMax = absl::Hours(24);

// OK for a name jobs/{job}/worlds/{world}.
absl::Status CheckScope(const std::string& scope);
// How long a call waits.
absl::StatusOr<absl::Duration> TimeoutOf(bool given, const google::protobuf::Duration& timeout);

// Without session.
absl::StatusOr<Candidate> CandidateOf(const v1::JoinRequest& request, absl::Time now);
absl::StatusOr<Returned> ReturnedOf(const v1::JoinRequest& request);
absl::StatusOr<Contribution> ContributionOf(const v1::Contribution& message);

// Of ExchangeRequest, LeaveRequest and AgreeStepRequest.
template <typename Request>
absl::StatusOr<Caller> CallerOf(const Request& request);

absl::Status CheckStep(int64_t step);
absl::Status CheckPreemption(const v1::ReportPreemptionRequest& request);

// Without its data, which is for members alone.
v1::WorldMember ListedMemberOf(const Process& process, int rank);
v1::WorldMember MemberOf(const Process& process, int rank);
v1::World::Waiting WaitingOf(const World::Waiting& round);
v1::WorldEvent PreemptEvent(const v1::WorldEvent::Preempt& preempt);
v1::WorldEvent LostEvent(int rank, const std::string& host, const std::string& why);
v1::WorldEvent OverEvent(const std::string& why, int next_size);
// Of an outcome that is OK.
v1::ExchangeResponse ResponseOf(const Outcome& outcome, const std::string& digest);
google::protobuf::Timestamp TimestampOf(absl::Time time);

}  // namespace remesh::server::coordination
