// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/clock.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/membership/worker_registry.h"

namespace remesh::server {

// Workers that left while nothing relied on their hosts, as operators may still want to see them.
// Anyone may attach, so it keeps little of each, for an hour, and of the last ones only. Not
// thread-safe.
class DepartedWorkers {
 public:
  static constexpr size_t kMost = 1000;
  static constexpr Timestamp kKept = std::chrono::hours(1);

  void Add(const WorkerEntry& worker, Timestamp now);
  // The host has attached again.
  void Remove(const std::string& host) { workers_.erase(host); }
  // Drops those whose hour is over.
  void Expire(Timestamp now);

  struct Departed {
    v1::Worker shown;  // in phase AWAY
    Timestamp left{0};
  };
  // By host.
  const std::map<std::string, Departed>& workers() const { return workers_; }

 private:
  std::map<std::string, Departed> workers_;
};

}  // namespace remesh::server
