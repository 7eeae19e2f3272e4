// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/resource_names.h"

namespace remesh::server::coordination {
namespace {

constexpr size_t kTextMax = 256;        // bytes of names for people
constexpr size_t kErrorTextMax = 4096;  // no error's text that is sent is as long
constexpr size_t kDevicesMax = 1024;
constexpr int64_t kStepMax = int64_t{1} << 62;
constexpr int64_t kTimestampMin = -62'135'596'800;  // seconds, of google.protobuf.Timestamp
constexpr int64_t kTimestampMax = 253'402'300'799;

absl::Status CheckRange(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(value), absl::StrCat("must be ", least, " to ", most));
}

absl::Status CheckLength(const char* field, const std::string& text, size_t least, size_t most) {
  if (text.size() >= least && text.size() <= most) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(text.size(), " bytes"),
                      least == most ? absl::StrCat("must be ", most, " bytes")
                                    : absl::StrCat("must be ", least, " to ", most, " bytes"));
}

absl::Status TooLarge(size_t bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("contribution.payload: ", bytes, " bytes are more than ", kPayloadMax),
      {.reason = "TOO_LARGE",
       .metadata = {{"bytes", absl::StrCat(bytes)}, {"most", absl::StrCat(kPayloadMax)}}});
}

absl::StatusOr<Process> ProcessOf(const v1::JoinRequest& request) {
  if (!IsHostName(request.host())) {
    return InvalidField("host", request.host(), "must be 1 to 253 of [A-Za-z0-9._-]");
  }
  RETURN_IF_ERROR(CheckRange("pid", request.pid(), 0, INT64_MAX));
  RETURN_IF_ERROR(CheckRange("local_index", request.local_index(), 0, kWorldSizeMax - 1));
  RETURN_IF_ERROR(CheckRange("device_ids", request.device_ids_size(), 0, kDevicesMax));
  RETURN_IF_ERROR(CheckLength("data", request.data(), 0, kDataMax));
  RETURN_IF_ERROR(CheckLength("nonce", request.nonce(), kNonceBytes, kNonceBytes));
  Process process;
  process.nonce = request.nonce();
  process.host = request.host();
  process.pid = request.pid();
  process.local_index = request.local_index();
  process.device_ids.assign(request.device_ids().begin(), request.device_ids().end());
  process.data = request.data();
  return process;
}

absl::StatusOr<Mode> ModeOf(v1::Contribution::Mode mode) {
  switch (mode) {
    case v1::Contribution::BARRIER:
      return Mode::kBarrier;
    case v1::Contribution::AGREE:
      return Mode::kAgree;
    case v1::Contribution::BROADCAST:
      return Mode::kBroadcast;
    case v1::Contribution::GATHER:
      return Mode::kGather;
    default:
      return InvalidField("contribution.mode", absl::StrCat(static_cast<int>(mode)),
                          "must be BARRIER, AGREE, BROADCAST or GATHER");
  }
}

absl::Status CheckPayload(Mode mode, const std::string& payload) {
  if (payload.size() > kPayloadMax) return TooLarge(payload.size());
  if (mode == Mode::kBarrier) return CheckLength("contribution.payload", payload, 0, 0);
  if (mode != Mode::kAgree) return absl::OkStatus();
  const size_t most = (1 + kLeafDigestsMax) * kDigestBytes;
  RETURN_IF_ERROR(CheckLength("contribution.payload", payload, kDigestBytes, most));
  if (payload.size() % kDigestBytes == 0) return absl::OkStatus();
  return InvalidField("contribution.payload", absl::StrCat(payload.size(), " bytes"),
                      "must be whole digests of 16 bytes");
}

absl::StatusOr<Ending> EndingOf(const std::string& name) {
  for (const Ending ending : {Ending::kOk, Ending::kNameMismatch, Ending::kStructureMismatch,
                              Ending::kValuesDiffer, Ending::kTimeout, Ending::kMemberLeft,
                              Ending::kMemberLost, Ending::kResultsDiffer, Ending::kTooLarge}) {
    if (name == NameOf(ending)) return ending;
  }
  return InvalidField("outcome", name, "must be OK or the reason of an error of Exchange");
}

// Of ReportPreemptionRequest and Preempt.
template <typename Message>
absl::Status CheckAsked(const Message& message) {
  RETURN_IF_ERROR(CheckLength("by", message.by(), 0, kTextMax));
  RETURN_IF_ERROR(
      CheckRange("deadline.seconds", message.deadline().seconds(), kTimestampMin, kTimestampMax));
  RETURN_IF_ERROR(CheckRange("deadline.nanos", message.deadline().nanos(), 0, 999'999'999));
  return CheckRange("next_size", message.next_size(), 0, kWorldSizeMax);
}

// How long a call waits.
absl::StatusOr<absl::Duration> TimeoutOf(bool given, const google::protobuf::Duration& timeout) {
  if (!given) return kTimeoutDefault;
  const absl::Duration duration =
      absl::Seconds(timeout.seconds()) + absl::Nanoseconds(timeout.nanos());
  if (duration == absl::ZeroDuration()) return kTimeoutDefault;
  if (duration > absl::ZeroDuration() && duration <= kTimeoutMax) return duration;
  return InvalidField("timeout", absl::FormatDuration(duration), "must be above 0, at most 24h");
}

absl::StatusOr<Contribution> ContributionOf(const v1::Contribution& message) {
  Contribution contribution;
  RETURN_IF_ERROR(CheckLength("contribution.name", message.name(), 0, kTextMax));
  ASSIGN_OR_RETURN(contribution.mode, ModeOf(message.mode()));
  RETURN_IF_ERROR(CheckPayload(contribution.mode, message.payload()));
  const bool gather = contribution.mode == Mode::kGather;
  const bool rooted = gather || contribution.mode == Mode::kBroadcast;
  RETURN_IF_ERROR(CheckRange("contribution.root", message.root(), gather ? -1 : 0,
                             rooted ? kWorldSizeMax - 1 : 0));
  contribution.name = message.name();
  contribution.root = message.root();
  contribution.payload = absl::Cord(message.payload());
  return contribution;
}

absl::StatusOr<Finished> FinishedOf(const v1::FinishedRound& message) {
  RETURN_IF_ERROR(CheckRange("sequence", message.sequence(), 0, kStepMax));
  Finished finished;
  finished.sequence = static_cast<uint64_t>(message.sequence());
  ASSIGN_OR_RETURN(finished.outcome.ending, EndingOf(message.outcome()));
  RETURN_IF_ERROR(CheckLength("message", message.message(), 0, kErrorTextMax));
  finished.outcome.message = message.message();
  finished.outcome.metadata = {message.metadata().begin(), message.metadata().end()};
  if (finished.outcome.ending != Ending::kOk) return finished;
  RETURN_IF_ERROR(CheckLength("digest", message.digest(), kDigestBytes, kDigestBytes));
  finished.digest = message.digest();
  ASSIGN_OR_RETURN(finished.contribution, ContributionOf(message.contribution()));
  return finished;
}

// Without session.
absl::StatusOr<Candidate> CandidateOf(const v1::JoinRequest& request, absl::Time now) {
  Candidate candidate;
  ASSIGN_OR_RETURN(candidate.process, ProcessOf(request));
  RETURN_IF_ERROR(CheckLength("attempt", request.attempt(), 0, kTextMax));
  RETURN_IF_ERROR(CheckRange("max_size", request.max_size(), 1, kWorldSizeMax));
  RETURN_IF_ERROR(CheckRange("min_size", request.min_size(), 1, request.max_size()));
  RETURN_IF_ERROR(CheckRange("rank", request.rank(), -1, request.max_size() - 1));
  ASSIGN_OR_RETURN(const absl::Duration timeout,
                   TimeoutOf(request.has_timeout(), request.timeout()));
  candidate.min_size = request.min_size();
  candidate.max_size = request.max_size();
  candidate.rank = request.rank();
  candidate.deadline = now + timeout;
  return candidate;
}

absl::StatusOr<Returned> ReturnedOf(const v1::JoinRequest& request) {
  Returned returned;
  ASSIGN_OR_RETURN(returned.process, ProcessOf(request));
  returned.epoch = request.epoch();
  returned.rank = request.rank();
  returned.size = request.size();
  RETURN_IF_ERROR(CheckRange("finished", request.finished_size(), 0, kOpenRoundsMax));
  for (int i = 0; i < request.finished_size(); ++i) {
    absl::StatusOr<Finished> finished = FinishedOf(request.finished(i));
    if (!finished.ok()) return AtIndex("finished", i, finished.status());
    if (i > 0 && finished->sequence != returned.finished.back().sequence + 1) {
      return AtIndex("finished", i,
                     InvalidField("sequence", absl::StrCat(finished->sequence),
                                  "must be one above that of the entry before"));
    }
    returned.finished.push_back(*std::move(finished));
  }
  if (request.has_preempt()) {
    RETURN_IF_ERROR(AtField("preempt", CheckAsked(request.preempt())));
    returned.preempt = request.preempt();
  }
  if (!request.has_agreed_step()) return returned;
  RETURN_IF_ERROR(CheckRange("agreed_step", request.agreed_step(), 0, kStepMax));
  returned.agreed_step = request.agreed_step();
  return returned;
}

// Of ExchangeRequest, LeaveRequest and AgreeStepRequest.
template <typename Request>
absl::StatusOr<Caller> CallerOfAny(const Request& request) {
  RETURN_IF_ERROR(CheckScope(request.scope()));
  RETURN_IF_ERROR(CheckLength("nonce", request.nonce(), kNonceBytes, kNonceBytes));
  Caller caller;
  caller.scope = request.scope();
  caller.epoch = request.epoch();
  caller.rank = request.rank();
  caller.nonce = request.nonce();
  return caller;
}

}  // namespace

absl::Status CheckScope(const std::string& scope) {
  if (!JobOfChild(scope, "worlds").empty()) return absl::OkStatus();
  return InvalidField(
      "scope", scope,
      "must be jobs/{job}/worlds/{world}, where {job} and {world} are 1 to 63 characters "
      "of [A-Za-z0-9._-]");
}

absl::StatusOr<ExchangeCall> ExchangeCallOf(const v1::ExchangeRequest& request) {
  ExchangeCall call;
  ASSIGN_OR_RETURN(call.caller, CallerOfAny(request));
  if (request.sequence() < 0) {
    return InvalidField("sequence", absl::StrCat(request.sequence()), "must be >= 0");
  }
  call.sequence = static_cast<uint64_t>(request.sequence());
  ASSIGN_OR_RETURN(call.contribution, ContributionOf(request.contribution()));
  ASSIGN_OR_RETURN(call.timeout, TimeoutOf(request.has_timeout(), request.timeout()));
  return call;
}

absl::StatusOr<StepCall> StepCallOf(const v1::AgreeStepRequest& request) {
  RETURN_IF_ERROR(CheckRange("step", request.step(), -1, kStepMax - 1));
  StepCall call;
  ASSIGN_OR_RETURN(call.caller, CallerOfAny(request));
  call.step = request.step();
  ASSIGN_OR_RETURN(call.timeout, TimeoutOf(request.has_timeout(), request.timeout()));
  return call;
}

absl::StatusOr<Caller> CallerOf(const v1::LeaveRequest& request) { return CallerOfAny(request); }

absl::StatusOr<v1::WorldEvent::Preempt> PreemptOf(const v1::ReportPreemptionRequest& request) {
  RETURN_IF_ERROR(CheckScope(request.scope()));
  RETURN_IF_ERROR(CheckAsked(request));
  v1::WorldEvent::Preempt preempt;
  preempt.set_by(request.by());
  preempt.set_next_size(request.next_size());
  preempt.set_resize(request.resize());
  if (request.has_deadline()) *preempt.mutable_deadline() = request.deadline();
  return preempt;
}

absl::Status Join(Registry& registry, SessionId session, const v1::JoinRequest& request,
                  absl::Time now, Actions& actions) {
  if (request.epoch() != 0) {
    ASSIGN_OR_RETURN(Returned returned, ReturnedOf(request));
    return registry.JoinAgain(request.scope(), session, std::move(returned), now, actions);
  }
  ASSIGN_OR_RETURN(Candidate candidate, CandidateOf(request, now));
  candidate.session = session;
  return registry.Join(request.scope(), request.attempt(), std::move(candidate), now, actions);
}

}  // namespace remesh::server::coordination
