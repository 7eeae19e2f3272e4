// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/communicators.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "server/controller/executions/peer_table.h"
#include "server/controller/values/uid.h"

namespace remesh::server {
namespace {

// Limits what a worker may claim.
constexpr int64_t kKeptSecondsMax = 24 * 3600;

}  // namespace

std::vector<Communicators::Drop> Communicators::Erase(const std::string& name) {
  const auto found = sets_.find(name);
  if (found == sets_.end()) return {};
  std::vector<Drop> drops;
  for (const std::string& host : found->second.hosts) {
    last_.erase(host);
    drops.push_back({.host = host, .name = name});
  }
  sets_.erase(found);
  return drops;
}

bool Communicators::Serve(const std::vector<v1::PeerEntry>& peers,
                          const std::vector<bool>& receivers) {
  for (size_t i = 0; i < peers.size(); ++i) {
    if (receivers[i] && HasNccl(peers[i])) return true;
  }
  return false;
}

Communicators::Named Communicators::Name(const std::string& execution,
                                         const std::vector<v1::PeerEntry>& peers, Timestamp now,
                                         const RandomBits& random) {
  Set set{.execution = execution};
  for (const v1::PeerEntry& peer : peers) {
    if (!HasNccl(peer)) continue;
    set.among += LifeOf(peer);
    set.hosts.insert(peer.host());
  }
  if (set.hosts.size() < 2) return {};
  Named named;
  const auto last = last_.find(*set.hosts.begin());
  const auto kept = last == last_.end() ? sets_.end() : sets_.find(last->second);
  named.communicators.set_reuse(kept != sets_.end() && kept->second.among == set.among &&
                                kept->second.kept_by == set.hosts && now < kept->second.until);
  named.communicators.set_name(named.communicators.reuse() ? kept->first
                                                           : MakeUid(random(), random()));
  for (const std::string& host : set.hosts) {
    const auto other = last_.find(host);
    if (other == last_.end()) continue;
    for (Drop& drop : Erase(std::string(other->second))) {
      // A host that takes part drops by itself the communicators that are not named to it.
      if (!set.hosts.contains(drop.host)) named.drops.push_back(std::move(drop));
    }
  }
  for (const std::string& host : set.hosts) last_[host] = named.communicators.name();
  sets_[named.communicators.name()] = std::move(set);
  return named;
}

void Communicators::OnCommitted(const std::string& execution, const std::string& host,
                                const v1::KeptCommunicators& kept, Timestamp now) {
  const auto found = sets_.find(kept.name());
  if (found == sets_.end()) return;
  Set& set = found->second;
  if (set.execution != execution || !set.hosts.contains(host)) return;
  const Timestamp until = now + std::chrono::seconds(std::clamp<int64_t>(kept.kept_for().seconds(),
                                                                         0, kKeptSecondsMax));
  set.until = set.kept_by.empty() ? until : std::min(set.until, until);
  set.kept_by.insert(host);
}

std::vector<Communicators::Drop> Communicators::OnHostAway(const std::string& host) {
  const auto last = last_.find(host);
  return last == last_.end() ? std::vector<Drop>() : Erase(std::string(last->second));
}

}  // namespace remesh::server
