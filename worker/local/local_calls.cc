// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_calls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
void LocalCalls::Allocate(CallId id, const v1::AllocateRequest& request, uid_t user,
                          Done<v1::ShardsResponse> done) {
  Begin(id, {.call = [this, request] { return buffers_->Allocate(request); },
             .done = std::move(done),
             .patient = request.wait(),
             .user = user});
}

void LocalCalls::GetShards(CallId id, const v1::GetShardsRequest& request, uid_t user,
                           Done<v1::ShardsResponse> done) {
  Begin(id, {.call = [this, request] { return buffers_->GetShards(request); },
             .done = std::move(done),
             .patient = request.wait(),
             .user = user});
}

// Waiting calls answer with shards, so the lambda keeps Lend's own response beside that answer.
void LocalCalls::Lend(CallId id, const v1::LendRequest& request, uid_t user,
                      Done<v1::SealResponse> done) {
  if (absl::Status may = CheckMayWait(user); !may.ok()) return done(std::move(may));
  auto response = std::make_shared<v1::SealResponse>();
  const auto keep = [response](absl::StatusOr<v1::SealResponse> lent) {
    if (lent.ok()) *response = *std::move(lent);
    return lent.status();
  };
  auto call = [this, id, request, user, keep]() -> absl::StatusOr<v1::ShardsResponse> {
    const auto later = [this, id, keep](absl::StatusOr<v1::SealResponse> lent) {
      Lent(id, keep(std::move(lent)));
    };
    RETURN_IF_ERROR(keep(buffers_->Lend(request, user, later)));
    return v1::ShardsResponse();
  };
  auto answer = [response,
                 done = std::move(done)](absl::StatusOr<v1::ShardsResponse> result) mutable {
    if (!result.ok()) return done(result.status());
    done(std::move(*response));
  };
  Begin(id, {.call = std::move(call),
             .done = std::move(answer),
             .patient = request.wait(),
             .user = user});
}

// The call may have ended while its memory was opened.
void LocalCalls::Lent(CallId id, const absl::Status& status) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  if (auto key = WaitsFor(it->second.patient, status))
    return Await(id, it->second, *std::move(key));
  if (!status.ok()) return End(id, status);
  End(id, v1::ShardsResponse());
}

std::optional<LocalCalls::Key> LocalCalls::WaitsFor(bool patient, const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  const ErrorInfo why = GetErrorInfo(status);
  const auto key = [&](Awaits awaits) { return Key{why.metadata.at("state"), awaits}; };
  if (why.reason == "BEING_RESERVED") return key(Awaits::kMemory);
  if (why.reason == "BEING_LENT") return key(Awaits::kOpening);
  if (!patient) return std::nullopt;
  if (why.reason == "STATE_NOT_FOUND") return key(Awaits::kState);
  if (why.reason == "GENERATION_NOT_FOUND") return key(Awaits::kGeneration);
  if (why.reason != "NOT_READABLE") return std::nullopt;
  Key readable = key(Awaits::kSeal);
  (void)absl::SimpleAtoi(why.metadata.at("generation"), &readable.generation);
  return readable;
}

void LocalCalls::Await(CallId id, Waiting& waiting, Key key) {
  if (key == waiting.key) return;
  Unlist(id, waiting.key);
  waiting.key = std::move(key);
  std::set<CallId>& ids = by_key_[waiting.key];
  ids.insert(id);
  // The answer to one call of those that wait for generations is known to the others, and has all
  // of them tried again: AskAgain() asks for them together.
  const bool asks = waiting.key.awaits == Awaits::kState ||
                    (waiting.key.awaits == Awaits::kGeneration && ids.size() == 1);
  if (asks) wanted_(waiting.key.state);
}

void LocalCalls::Unlist(CallId id, const Key& key) {
  const auto ids = by_key_.find(key);
  if (ids == by_key_.end()) return;
  ids->second.erase(id);
  if (ids->second.empty()) by_key_.erase(ids);
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
  auto result = call.call();
  auto key = WaitsFor(call.patient, result.status());
  if (!key) return call.done(std::move(result));
  if (absl::Status may = CheckMayWait(call.user); !may.ok()) return call.done(std::move(may));
  ++of_user_[call.user];
  Await(id, waiting_[id] = std::move(call), *std::move(key));
}

void LocalCalls::Retry(const std::string& state) {
  std::vector<CallId> ids;
  for (auto it = by_key_.lower_bound(Key{.state = state});
       it != by_key_.end() && it->first.state == state; ++it) {
    if (it->first.awaits != Awaits::kOpening)
      ids.insert(ids.end(), it->second.begin(), it->second.end());
  }
  std::sort(ids.begin(), ids.end());
  Retry(ids);
}

void LocalCalls::Sealed(const std::string& state, int64_t generation) {
  const auto ids = by_key_.find(Key{state, Awaits::kSeal, generation});
  if (ids != by_key_.end()) Retry(std::vector<CallId>(ids->second.begin(), ids->second.end()));
}

void LocalCalls::Retry(const std::vector<CallId>& ids) {
  for (const CallId id : ids) {
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) continue;
    ++retries_;
    auto result = it->second.call();
    auto key = WaitsFor(it->second.patient, result.status());
    if (key) {
      Await(id, it->second, *std::move(key));
    } else {
      End(id, std::move(result));
    }
  }
}

void LocalCalls::Reserved(const std::string& state, const absl::Status& status) {
  const auto ids = by_key_.find(Key{state, Awaits::kMemory});
  if (!status.ok() && ids != by_key_.end()) {
    for (const CallId id : std::set<CallId>(ids->second)) End(id, status);
  }
  Retry(state);
}

void LocalCalls::SayWanted() {
  for (const auto& [key, ids] : by_key_) {
    if (key.awaits == Awaits::kState || key.awaits == Awaits::kGeneration) wanted_(key.state);
  }
}

void LocalCalls::AskAgain() {
  int asked = 0;
  auto it = by_key_.upper_bound(asked_last_);
  for (size_t looked = 0; looked < by_key_.size() && asked < kAskedAtOnce; ++looked, ++it) {
    if (it == by_key_.end()) it = by_key_.begin();
    const Key& key = it->first;
    if (key.awaits != Awaits::kGeneration || buffers_->HasShards(key.state)) continue;
    wanted_(key.state);
    ++asked;
    asked_last_ = key;
  }
}

void LocalCalls::End(CallId id, absl::StatusOr<v1::ShardsResponse> result) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  Waiting waiting = std::move(it->second);
  waiting_.erase(it);
  Unlist(id, waiting.key);
  if (--of_user_.at(waiting.user) == 0) of_user_.erase(waiting.user);
  waiting.done(std::move(result));
}

void LocalCalls::Cancel(CallId id) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  if (it->second.key.awaits == Awaits::kOpening) buffers_->StopLending(it->second.key.state);
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
