// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/deletion_waits.h"

#include <algorithm>
#include <utility>

namespace remesh::server {

void AnswerDeletion(CallId call, const std::map<StateKey, Remains>& remains, Outbox& out) {
  std::set<std::string> absent;
  for (const auto& [state, hosts] : remains) {
    absent.insert(hosts.absent.begin(), hosts.absent.end());
  }
  v1::DeleteStateResponse response;
  *response.mutable_absent_hosts() = {absent.begin(), absent.end()};
  out.Reply(call, std::move(response));
}

void DeletionWaits::Begin(CallId call, const std::map<StateKey, Remains>& remains, Outbox& out) {
  const bool free = std::all_of(remains.begin(), remains.end(),
                                [](const auto& one) { return one.second.attached.empty(); });
  if (free) return AnswerDeletion(call, remains, out);
  for (const auto& [state, hosts] : remains) {
    Waited& waited = states_[state];
    for (const std::string& host : hosts.attached) {  // a later deletion may know of more
      waited.remains.absent.erase(host);
      waited.remains.attached.insert(host);
    }
    for (const std::string& host : hosts.absent) {
      if (!waited.remains.attached.contains(host)) waited.remains.absent.insert(host);
    }
    waited.calls.insert(call);
    calls_[call].insert(state);
  }
}

void DeletionWaits::OnConfirmed(const std::string& host, const StateKey& state, Outbox& out) {
  const auto found = states_.find(state);
  if (found == states_.end()) return;
  Remains& remains = found->second.remains;
  remains.absent.erase(host);
  if (remains.attached.erase(host) == 0 || !remains.attached.empty()) return;
  AnswerThose(std::set<CallId>(found->second.calls), out);
}

void DeletionWaits::OnHolds(const std::string& host, const StateKey& state) {
  const auto found = states_.find(state);
  if (found == states_.end()) return;
  found->second.remains.absent.erase(host);
  found->second.remains.attached.insert(host);
}

void DeletionWaits::OnAway(const std::string& host, Outbox& out) {
  std::set<CallId> calls;
  for (auto& [state, waited] : states_) {
    if (waited.remains.attached.erase(host) == 0) continue;
    waited.remains.absent.insert(host);
    if (waited.remains.attached.empty()) calls.insert(waited.calls.begin(), waited.calls.end());
  }
  AnswerThose(calls, out);
}

void DeletionWaits::OnAttached(const std::string& host) {
  for (auto& [state, waited] : states_) {
    if (waited.remains.absent.erase(host) > 0) waited.remains.attached.insert(host);
  }
}

void DeletionWaits::Drop(CallId call) {
  const auto states = calls_.extract(call);
  if (states.empty()) return;
  for (const StateKey& state : states.mapped()) {
    const auto waited = states_.find(state);
    waited->second.calls.erase(call);
    if (waited->second.calls.empty()) states_.erase(waited);
  }
}

void DeletionWaits::EndAll(const absl::Status& why, Outbox& out) {
  for (const auto& [call, states] : calls_) out.Reply(call, why);
  calls_.clear();
  states_.clear();
}

// Answers those of the calls that wait for no host any more.
void DeletionWaits::AnswerThose(const std::set<CallId>& calls, Outbox& out) {
  for (const CallId call : calls) {
    std::map<StateKey, Remains> remains;
    for (const StateKey& state : calls_.at(call)) remains[state] = states_.at(state).remains;
    const bool waits = std::any_of(remains.begin(), remains.end(),
                                   [](const auto& one) { return !one.second.attached.empty(); });
    if (waits) continue;
    Drop(call);
    AnswerDeletion(call, remains, out);
  }
}

}  // namespace remesh::server
