// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_calls.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace remesh {
namespace {

// What time may heal.
bool MayCome(const absl::Status& status) {
  const std::string reason = GetErrorInfo(status).reason;
  return reason == "STATE_NOT_FOUND" || reason == "GENERATION_NOT_FOUND" ||
         reason == "NOT_READABLE";
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

void LocalCalls::Wait(CallId id, bool wait,
                      absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call,
                      Done<v1::ShardsResponse> done) {
  auto result = call();
  if (wait && !result.ok() && MayCome(result.status())) {
    const ErrorInfo why = GetErrorInfo(result.status());
    const bool unknown = why.reason == "STATE_NOT_FOUND";
    std::string wanted = unknown ? why.metadata.at("state") : "";
    if (unknown) wanted_(wanted);
    waiting_[id] = {std::move(call), std::move(done), std::move(wanted)};
    return;
  }
  done(std::move(result));
}

void LocalCalls::Retry() {
  std::vector<CallId> ids;
  for (const auto& [id, waiting] : waiting_) ids.push_back(id);
  for (const CallId id : ids) {
    const auto it = waiting_.find(id);
    if (it == waiting_.end()) continue;
    auto result = it->second.call();
    if (!result.ok() && MayCome(result.status())) continue;
    Waiting waiting = std::move(it->second);
    waiting_.erase(it);
    waiting.done(std::move(result));
  }
}

void LocalCalls::SayWanted() {
  std::set<std::string> states;
  for (const auto& [id, waiting] : waiting_) {
    if (!waiting.wanted.empty()) states.insert(waiting.wanted);
  }
  for (const std::string& state : states) wanted_(state);
}

void LocalCalls::End(CallId id, const absl::Status& status) {
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return;
  Waiting waiting = std::move(it->second);
  waiting_.erase(it);
  waiting.done(status);
}

void LocalCalls::Cancel(CallId id) {
  End(id, MakeError(absl::StatusCode::kCancelled, "the call was cancelled while it waited",
                    {"CANCELLED", {}}));
}

void LocalCalls::Close() {
  while (!waiting_.empty()) {
    End(waiting_.begin()->first,
        MakeError(absl::StatusCode::kUnavailable, "the worker stops", {"WORKER_STOPS", {}}));
  }
}

}  // namespace remesh
