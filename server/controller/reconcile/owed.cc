// SPDX-License-Identifier: Apache-2.0
#include "server/controller/reconcile/owed.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {

void Owed::Note(const HeldGeneration& held, const Verdict& verdict, bool durable, Outbox& out) {
  const v1::StateManifest& manifest = held.manifest;
  const ManifestKey key = KeyOf(manifest);
  const bool added = entries_
                         .insert_or_assign({key, held.host}, Entry{.manifest = manifest,
                                                                   .reason = verdict.reason,
                                                                   .newer = verdict.newer})
                         .second;
  if (verdict.newer) {
    newer_.insert({key, held.host});
  } else {
    newer_.erase({key, held.host});
  }
  const bool newer = durable && verdict.newer;
  if (newer) newer_hosts_[{key.state, key.state_uid}].insert(held.host);
  if (!added && !newer) ForgetNewer(held.host, key);
  if (!added) return;
  const std::string line =
      absl::StrCat("host ", held.host, " keeps generation ", manifest.generation(), " of ",
                   manifest.state(), " (uid ", manifest.state_uid(), "): ", verdict.reason);
  if (newer) {
    out.Warn(absl::StrCat(line, "; the state is LOST until that is settled"));
  } else {
    out.Note(line);
  }
}

void Owed::Drop(const std::string& host, const ManifestKey& key) {
  newer_.erase({key, host});
  if (entries_.erase({key, host}) != 0) ForgetNewer(host, key);
}

// Removes the host from newer_hosts_, unless it owes another generation of the state that is newer
// than the journal's.
void Owed::ForgetNewer(const std::string& host, const ManifestKey& key) {
  const auto hosts = newer_hosts_.find({key.state, key.state_uid});
  if (hosts == newer_hosts_.end() || !hosts->second.contains(host)) return;
  for (auto it = entries_.lower_bound({{.state = key.state, .state_uid = key.state_uid}, ""});
       it != entries_.end() && it->first.first.state == key.state &&
       it->first.first.state_uid == key.state_uid;
       ++it) {
    if (it->second.newer && it->first.second == host) return;
  }
  hosts->second.erase(host);
  if (hosts->second.empty()) newer_hosts_.erase(hosts);
}

const Owed::Entry* Owed::Find(const std::string& host, const ManifestKey& key) const {
  const auto found = entries_.find({key, host});
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<HeldGeneration> Owed::OfState(const std::string& state) const {
  std::vector<HeldGeneration> held;
  for (auto it = entries_.lower_bound({{.state = state}, ""});
       it != entries_.end() && it->first.first.state == state; ++it) {
    held.push_back({.host = it->first.second, .manifest = it->second.manifest});
  }
  return held;
}

std::vector<HeldGeneration> Owed::NewerOf(const std::string& state) const {
  std::vector<HeldGeneration> held;
  for (auto it = newer_.lower_bound({{.state = state}, ""});
       it != newer_.end() && it->first.state == state; ++it) {
    held.push_back({.host = it->second, .manifest = entries_.at(*it).manifest});
  }
  return held;
}

absl::StatusOr<v1::DiscardShardsResponse> Owed::OnHost(const std::string& host,
                                                       const StateKey& state) const {
  v1::DiscardShardsResponse response;
  for (const HeldGeneration& held : OfState(state.name)) {
    if (held.host != host || held.manifest.state_uid() != state.uid) continue;
    *response.add_discarded() = held.manifest;
  }
  if (!response.discarded().empty()) return response;
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("host ", host, " has no pending discard of ", state.name, " with uid \"",
                   state.uid, "\"; remeshctl workers owed lists the pending ones"),
      {.reason = "NOT_OWED",
       .metadata = {{"host", host}, {"state", state.name}, {"state_uid", state.uid}}});
}

std::set<std::string> Owed::NewerHosts(const StateKey& state) const {
  const auto hosts = newer_hosts_.find(state);
  return hosts == newer_hosts_.end() ? std::set<std::string>() : hosts->second;
}

}  // namespace remesh::server
