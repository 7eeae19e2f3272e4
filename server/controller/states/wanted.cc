// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/wanted.h"

#include <utility>

namespace remesh::server {

void Wanted::Add(const std::string& host, const std::string& state) {
  if (!by_state_[state].try_emplace(host, next_).second) return;
  auto& of_host = by_host_[host];
  of_host[next_++] = state;
  if (of_host.size() > kOfHostMax) Drop(host, std::string(of_host.begin()->second));
}

std::vector<std::string> Wanted::HostsOf(const std::string& state) const {
  std::vector<std::string> hosts;
  const auto found = by_state_.find(state);
  if (found == by_state_.end()) return hosts;
  for (const auto& [host, when] : found->second) hosts.push_back(host);
  return hosts;
}

void Wanted::DropHost(const std::string& host) {
  const auto found = by_host_.find(host);
  if (found == by_host_.end()) return;
  for (const auto& [when, state] : std::exchange(found->second, {})) {
    const auto hosts = by_state_.find(state);
    hosts->second.erase(host);
    if (hosts->second.empty()) by_state_.erase(hosts);
  }
  by_host_.erase(found);
}

void Wanted::DropState(const std::string& state) {
  for (const std::string& host : HostsOf(state)) Drop(host, state);
}

void Wanted::Drop(const std::string& host, const std::string& state) {
  const auto hosts = by_state_.find(state);
  const auto of_host = by_host_.find(host);
  of_host->second.erase(hosts->second.at(host));
  if (of_host->second.empty()) by_host_.erase(of_host);
  hosts->second.erase(host);
  if (hosts->second.empty()) by_state_.erase(hosts);
}

}  // namespace remesh::server
