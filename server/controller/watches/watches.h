// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "server/controller/executions/executions.h"
#include "server/controller/states/states.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// Callers that watch a state or an execution: each gets the value now and after every change; of
// what has more than kPromptHosts hosts, after the changes of each tick. Its value names all hosts,
// and each of them changes it: N hosts would cost N^2. Knows what can be watched. Not thread-safe.
class Watches {
 public:
  static constexpr size_t kPromptHosts = 256;

  Watches(const WorkerRegistry& workers, const StateRegistry& states, const Executions& executions)
      : workers_(workers), states_(states), executions_(executions) {}

  void OnStarted(const WatchStarted& watch, Outbox& out);
  void OnEnded(WatchId watch);
  // Tells the watchers of everything that was touched, except what waits for OnTick().
  void NotifyTouched(Outbox& out);
  void OnTick(Outbox& out);

 private:
  // The present value of a watched resource; null: the resource does not exist. `last`: the value
  // does not change any more, so the watch ends with it.
  struct Standing {
    std::shared_ptr<const Reply> value;
    bool last = false;
  };
  Standing StandingOf(const std::string& name) const;
  bool IsPrompt(const std::string& name) const;
  void NotifyWatchers(const std::string& name, Outbox& out);
  bool NotifyWatch(WatchId watch, const std::string& name, const Standing& standing,
                   Outbox& out) const;

  const WorkerRegistry& workers_;
  const StateRegistry& states_;
  const Executions& executions_;
  std::map<WatchId, std::string> watches_;
  std::map<std::string, std::set<WatchId>> watchers_;  // by name
  std::set<std::string> untold_;                       // names; touched since the last tick
};

}  // namespace remesh::server
