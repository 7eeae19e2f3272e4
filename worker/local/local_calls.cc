// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

// Keeps the response for later; nullopt if there is one.
template <typename Response>
std::optional<Unanswered> Keep(Outcome<Response> result, Response& kept) {
  if (!result.ok()) return result.unanswered();
  kept = *std::move(result);
  return std::nullopt;
}

}  // namespace

template <typename Response>
LocalCalls::Waiting LocalCalls::MakeCall(absl::AnyInvocable<Outcome<Response>()> call,
                                         Done<Response> done, bool patient, uid_t user) {
  auto kept = std::make_shared<Response>();
  return {.call = [call = std::move(call), kept]() mutable { return Keep(call(), *kept); },
          .done =
              [done = std::move(done), kept](absl::Status status) mutable {
                if (!status.ok()) return done(std::move(status));
                done(std::move(*kept));
              },
          .patient = patient,
          .user = user,
          .awaited = {}};
}

void LocalCalls::Allocate(CallId id, const v1::AllocateRequest& request, uid_t user,
                          Done<v1::ShardsResponse> done) {
  const auto call = [this, request] { return buffers_->Allocate(request); };
  Begin(id, MakeCall<v1::ShardsResponse>(call, std::move(done), request.wait(), user));
}

void LocalCalls::GetShards(CallId id, const v1::GetShardsRequest& request, uid_t user,
                           Done<v1::ShardsResponse> done) {
  const auto call = [this, request] { return buffers_->GetShards(request); };
  Begin(id, MakeCall<v1::ShardsResponse>(call, std::move(done), request.wait(), user));
}

void LocalCalls::GetHost(CallId id, const v1::GetHostRequest& request, uid_t user,
                         Done<v1::GetHostResponse> done) {
  const auto call = [this]() -> Outcome<v1::GetHostResponse> {
    if (host_->welcomed()) return host_->facts();
    return Unanswered{absl::UnavailableError("the worker has not been attached to the server yet"),
                      Awaited{.state = "", .what = Awaited::What::kWelcome}};
  };
  if (!request.wait()) return done(host_->facts());
  Begin(id, MakeCall<v1::GetHostResponse>(call, std::move(done), /*patient=*/true, user));
}

// The response comes from Lend() itself, or later.
void LocalCalls::Lend(CallId id, const v1::LendRequest& request, uid_t user,
                      Done<v1::SealResponse> done) {
  if (absl::Status may = CheckMayWait(user); !may.ok()) return done(std::move(may));
  auto kept = std::make_shared<v1::SealResponse>();
  const auto later = [this, id, kept](Outcome<v1::SealResponse> lent) {
    Continue(id, Keep(std::move(lent), *kept));
  };
  const auto call = [this, request, user, later, kept] {
    return Keep(buffers_->Lend(request, user, later), *kept);
  };
  auto answer = [kept, done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return done(std::move(status));
    done(std::move(*kept));
  };
  Begin(id, {.call = call,
             .done = std::move(answer),
             .patient = request.wait(),
             .user = user,
             .awaited = {}});
}

// The call may have ended while it waited.
void LocalCalls::Continue(CallId id, const std::optional<Unanswered>& result) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  if (auto awaited = WaitsFor(it->second.patient, result))
    return Await(id, it->second, *std::move(awaited));
  End(id, result ? result->error : absl::OkStatus());
}

std::optional<Awaited> LocalCalls::WaitsFor(bool patient, const std::optional<Unanswered>& result) {
  if (!result || !result->awaited) return std::nullopt;
  if (!patient && !result->awaited->under_way()) return std::nullopt;
  return result->awaited;
}

void LocalCalls::Await(CallId id, Waiting& waiting, Awaited awaited) {
  if (awaited == waiting.awaited) return;
  Unlist(id, waiting.awaited);
  waiting.awaited = std::move(awaited);
  std::set<CallId>& ids = by_awaited_[waiting.awaited];
  ids.insert(id);
  // The answer to one call of those that wait for generations is known to the others, and has all
  // of them tried again: AskAgain() asks for them together.
  const bool asks = waiting.awaited.what == Awaited::What::kState ||
                    (waiting.awaited.what == Awaited::What::kGeneration && ids.size() == 1);
  if (asks) wanted_(waiting.awaited.state);
}

void LocalCalls::Unlist(CallId id, const Awaited& awaited) {
  const auto ids = by_awaited_.find(awaited);
  if (ids == by_awaited_.end()) return;
  ids->second.erase(id);
  if (ids->second.empty()) by_awaited_.erase(ids);
}

absl::Status LocalCalls::CheckMayWait(uid_t user) const {
  const auto known = of_user_.find(user);
  const bool full = known != of_user_.end() && known->second >= limits_.of_user;
  if (!full && waiting() < limits_.all) return absl::OkStatus();
  const std::string uid = absl::StrCat(user);
  const std::string most = absl::StrCat(full ? limits_.of_user : limits_.all);
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("calls that wait on this host: ", most, ", as many as ",
                   full ? absl::StrCat("uid ", uid) : "all users together", " may have there"),
      {"WAITING_CALLS", {{"uid", uid}, {"waiting_max", most}}});
}

void LocalCalls::Begin(CallId id, Waiting call) {
  const std::optional<Unanswered> result = call.call();
  auto awaited = WaitsFor(call.patient, result);
  if (!awaited) return call.done(result ? result->error : absl::OkStatus());
  if (absl::Status may = CheckMayWait(call.user); !may.ok()) return call.done(std::move(may));
  ++of_user_[call.user];
  Await(id, waiting_[id] = std::move(call), *std::move(awaited));
}

void LocalCalls::Retry(const std::string& state) {
  std::vector<CallId> ids;
  for (auto it = by_awaited_.lower_bound(Awaited{.state = state});
       it != by_awaited_.end() && it->first.state == state; ++it) {
    if (it->first.what != Awaited::What::kOpening)
      ids.insert(ids.end(), it->second.begin(), it->second.end());
  }
  std::sort(ids.begin(), ids.end());
  Retry(ids);
}

void LocalCalls::Sealed(const std::string& state, int64_t generation) {
  const auto ids = by_awaited_.find(Awaited{state, Awaited::What::kSeal, generation});
  if (ids != by_awaited_.end()) Retry(std::vector<CallId>(ids->second.begin(), ids->second.end()));
}

void LocalCalls::Retry(const std::vector<CallId>& ids) {
  for (const CallId id : ids) {
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) continue;
    ++retries_;
    Continue(id, it->second.call());
  }
}

void LocalCalls::Reserved(const std::string& state, const absl::Status& status) {
  const auto ids = by_awaited_.find(Awaited{state, Awaited::What::kMemory});
  if (!status.ok() && ids != by_awaited_.end()) {
    for (const CallId id : std::set<CallId>(ids->second)) End(id, status);
  }
  Retry(state);
}

void LocalCalls::SendWanted() {
  for (const auto& [awaited, ids] : by_awaited_) {
    if (awaited.what == Awaited::What::kState || awaited.what == Awaited::What::kGeneration)
      wanted_(awaited.state);
  }
}

void LocalCalls::AskAgain() {
  int asked = 0;
  auto it = by_awaited_.upper_bound(asked_last_);
  for (size_t looked = 0; looked < by_awaited_.size() && asked < kAskedAtOnce; ++looked, ++it) {
    if (it == by_awaited_.end()) it = by_awaited_.begin();
    const Awaited& awaited = it->first;
    if (awaited.what != Awaited::What::kGeneration || buffers_->HasShards(awaited.state)) continue;
    wanted_(awaited.state);
    ++asked;
    asked_last_ = awaited;
  }
}

void LocalCalls::End(CallId id, absl::Status status) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  Waiting waiting = std::move(it->second);
  waiting_.erase(it);
  Unlist(id, waiting.awaited);
  if (--of_user_.at(waiting.user) == 0) of_user_.erase(waiting.user);
  waiting.done(std::move(status));
}

void LocalCalls::Cancel(CallId id) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  const Awaited& awaited = it->second.awaited;
  if (awaited.what == Awaited::What::kOpening) buffers_->StopLending(awaited.state);
  End(id, MakeError(absl::StatusCode::kCancelled, "the call was cancelled while it waited",
                    {"CANCELLED", {}}));
}

void LocalCalls::Close() {
  while (!waiting_.empty()) {
    End(waiting_.begin()->first,
        MakeError(absl::StatusCode::kUnavailable, "the worker stops", {"WORKER_STOPS", {}}));
  }
}

}  // namespace remesh::worker
