// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_calls.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

// Whether the call may succeed later without a change by its caller.
bool MayCome(const ErrorInfo& why) {
  return why.reason == "STATE_NOT_FOUND" || why.reason == "GENERATION_NOT_FOUND" ||
         why.reason == "NOT_READABLE";
}

}  // namespace

void LocalCalls::Allocate(CallId id, const v1::AllocateRequest& request,
                          Done<v1::ShardsResponse> done) {
  Wait(
      id, request.wait(), [this, request] { return buffers_->Allocate(request); }, std::move(done));
}

void LocalCalls::GetShards(CallId id, const v1::GetShardsRequest& request,
                           Done<v1::ShardsResponse> done) {
  Wait(
      id, request.wait(), [this, request] { return buffers_->GetShards(request); },
      std::move(done));
}

// Waiting calls answer with shards, so the lambda keeps Lend's own response beside that answer.
void LocalCalls::Lend(CallId id, const v1::LendRequest& request, uid_t lender,
                      Done<v1::SealResponse> done) {
  auto response = std::make_shared<v1::SealResponse>();
  const auto keep = [response](absl::StatusOr<v1::SealResponse> lent) {
    if (lent.ok()) *response = *std::move(lent);
    return lent.status();
  };
  Wait(
      id, request.wait(),
      [this, id, request, lender, keep]() -> absl::StatusOr<v1::ShardsResponse> {
        const auto later = [this, id, keep](absl::StatusOr<v1::SealResponse> lent) {
          Lent(id, keep(std::move(lent)));
        };
        RETURN_IF_ERROR(keep(buffers_->Lend(request, lender, later)));
        return v1::ShardsResponse();
      },
      [response, done = std::move(done)](absl::StatusOr<v1::ShardsResponse> result) mutable {
        if (!result.ok()) return done(result.status());
        done(std::move(*response));
      });
}

// The call may have ended while its memory was opened.
void LocalCalls::Lent(CallId id, const absl::Status& status) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end() || MustWait(it->second, status)) return;
  if (!status.ok()) return End(id, status);
  End(id, v1::ShardsResponse());
}

bool LocalCalls::MustWait(Waiting& waiting, const absl::Status& status) {
  waiting.wanted.clear();
  waiting.reserving.clear();
  waiting.lending.clear();
  if (status.ok()) return false;
  const ErrorInfo why = GetErrorInfo(status);
  if (why.reason == "BEING_RESERVED") waiting.reserving = why.metadata.at("state");
  if (why.reason == "STATE_NOT_FOUND") waiting.wanted = why.metadata.at("state");
  if (why.reason == "BEING_LENT") waiting.lending = why.metadata.at("state");
  return !waiting.reserving.empty() || !waiting.lending.empty() ||
         (waiting.patient && MayCome(why));
}

void LocalCalls::Wait(CallId id, bool wait,
                      absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call,
                      Done<v1::ShardsResponse> done) {
  Waiting waiting{.call = std::move(call), .done = std::move(done), .patient = wait};
  auto result = waiting.call();
  if (!MustWait(waiting, result.status())) return waiting.done(std::move(result));
  const std::string wanted = waiting.wanted;
  waiting_[id] = std::move(waiting);
  if (!wanted.empty()) wanted_(wanted);
}

void LocalCalls::Retry() {
  std::vector<CallId> ids;
  for (const auto& [id, waiting] : waiting_) ids.push_back(id);
  for (const CallId id : ids) {
    const auto it = waiting_.find(id);
    if (it == waiting_.end() || !it->second.lending.empty()) continue;
    const std::string wanted = it->second.wanted;
    auto result = it->second.call();
    if (MustWait(it->second, result.status())) {
      if (!it->second.wanted.empty() && wanted.empty()) wanted_(it->second.wanted);
      continue;
    }
    Waiting waiting = std::move(it->second);
    waiting_.erase(it);
    waiting.done(std::move(result));
  }
}

void LocalCalls::Reserved(const std::string& state, const absl::Status& status) {
  std::vector<CallId> failed;
  for (const auto& [id, waiting] : waiting_) {
    if (!status.ok() && waiting.reserving == state) failed.push_back(id);
  }
  for (const CallId id : failed) End(id, status);
  Retry();
}

void LocalCalls::SayWanted() {
  std::set<std::string> states;
  for (const auto& [id, waiting] : waiting_) {
    if (!waiting.wanted.empty()) states.insert(waiting.wanted);
  }
  for (const std::string& state : states) wanted_(state);
}

void LocalCalls::End(CallId id, absl::StatusOr<v1::ShardsResponse> result) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  Waiting waiting = std::move(it->second);
  waiting_.erase(it);
  waiting.done(std::move(result));
}

void LocalCalls::Cancel(CallId id) {
  const auto it = waiting_.find(id);
  if (it != waiting_.end()) buffers_->StopLending(it->second.lending);
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
