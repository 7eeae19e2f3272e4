// SPDX-License-Identifier: Apache-2.0
#include "server/questions/live_topology.h"

#include <utility>

namespace remesh::server {

void LiveTopology::Apply(TopologyChanged change) {
  // Freed without the lock: may be large.
  std::shared_ptr<const planner::Topology> before;
  absl::MutexLock lock(&mutex_);
  before = std::exchange(built_, nullptr);
  for (const std::string& host : change.gone) hosts_.erase(host);
  for (planner::Host& host : change.hosts) {
    std::string name = host.name;
    hosts_.insert_or_assign(std::move(name), std::move(host));
  }
  if (change.domains) domains_ = *std::move(change.domains);
}

std::shared_ptr<const planner::Topology> LiveTopology::Get() {
  absl::MutexLock lock(&mutex_);
  if (built_ != nullptr || hosts_.empty()) return built_;
  auto topology = std::make_shared<planner::Topology>();
  topology->hosts.reserve(hosts_.size());
  for (const auto& [name, host] : hosts_) topology->hosts.push_back(host);
  topology->domains = domains_;
  built_ = std::move(topology);
  return built_;
}

}  // namespace remesh::server
