// SPDX-License-Identifier: Apache-2.0
#include "server/controller/membership/departed.h"

#include <algorithm>

namespace remesh::server {

void DepartedWorkers::Add(const WorkerEntry& worker, Timestamp now) {
  const std::string& host = worker.registration.host();
  Departed& departed = workers_[host];
  const v1::Worker full = ToProto(worker);
  departed.left = now;
  departed.shown.Clear();
  departed.shown.set_name(full.name());
  departed.shown.mutable_registration()->set_host(host);
  departed.shown.mutable_registration()->set_version(worker.registration.version());
  *departed.shown.mutable_last_heartbeat_time() = full.last_heartbeat_time();
  departed.shown.set_phase(v1::Worker::AWAY);
  if (workers_.size() <= kMost) return;
  workers_.erase(
      std::min_element(workers_.begin(), workers_.end(),
                       [](const auto& a, const auto& b) { return a.second.left < b.second.left; }));
}

void DepartedWorkers::Expire(Timestamp now) {
  std::erase_if(workers_, [&](const auto& one) { return now - one.second.left > kKept; });
}

}  // namespace remesh::server
