// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "planner/values/topology.h"
#include "server/controller/values/action.h"

namespace remesh::server {

// The topology that an empty topology in a request stands for. A change of a host costs the same
// however many others there are: the whole is built when it is asked for, and kept until the next
// change. Thread-safe.
class LiveTopology {
 public:
  explicit LiveTopology(std::vector<planner::Domain> domains) : domains_(std::move(domains)) {}

  void Apply(TopologyChanged change);
  // Hosts sorted by name; null: there are none.
  std::shared_ptr<const planner::Topology> Get();

 private:
  absl::Mutex mutex_;
  std::map<std::string, planner::Host> hosts_ ABSL_GUARDED_BY(mutex_);
  std::vector<planner::Domain> domains_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const planner::Topology> built_ ABSL_GUARDED_BY(mutex_);  // null: not built
};

}  // namespace remesh::server
