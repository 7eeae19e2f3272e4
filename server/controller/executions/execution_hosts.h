// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/controller/executions/execution_spec.h"

namespace remesh::server {

// The progress of one host of an execution.
struct ExecutionHost {
  std::string name;
  bool receives = false;  // shards of the target
  bool told = false;      // it was sent the attempt, so it must quiesce
  bool away = false;
  bool prepared = false;
  bool verified = false;
  bool committed = false;
  bool quiesced = false;
  bool settled = false;     // it quiesced, or came back since and was sent what to free
  bool incomplete = false;  // it came back without its shards of the target
  uint64_t slices = 1;      // that its moves have finished, counted from 1
  int commit_failures = 0;
  Timestamp commit_again{0};  // when to repeat Commit, once it failed
};

// The progress of all hosts of an execution, in the order of ExecutionSpec::participants, which is
// by name.
class ExecutionHosts {
 public:
  explicit ExecutionHosts(const std::vector<Participant>& participants);
  // After a restart of the server no host is attached, and any host may have been sent the
  // attempt.
  void Restore(bool ended);

  size_t size() const { return hosts_.size(); }
  ExecutionHost& operator[](size_t index) { return hosts_[index]; }
  const ExecutionHost& operator[](size_t index) const { return hosts_[index]; }
  int IndexOf(const std::string& host) const;  // -1: takes no part

  bool prepared() const;
  bool verified() const;
  // Whether every host has committed. A host that receives no shards has nothing to make readable,
  // so its absence delays no host.
  bool committed() const;
  bool quiet() const;    // no host that is attached still runs the attempt
  bool settled() const;  // no host holds anything that only the record explains
  // Whether a receiver came back without its shards of the target, or will not come back.
  bool incomplete() const;

  // Hosts to which Commit must be repeated by now.
  std::vector<int> CommitsToRepeat(Timestamp now) const;
  // Commit failed on this host. The time until it is repeated grows with each failure.
  void CommitFailed(int index, Timestamp now);
  void ExtendDeadlines(Timestamp pause);  // the server itself stood still

 private:
  template <typename Holds>
  bool All(size_t& looked, Holds holds) const;

  std::vector<ExecutionHost> hosts_;
  // Where the answer was no when it was last asked for: it probably still is. So asking after each
  // answer of a host does not look at all hosts.
  mutable size_t prepared_looked_ = 0;
  mutable size_t verified_looked_ = 0;
  mutable size_t committed_looked_ = 0;
  mutable size_t quiet_looked_ = 0;
};

}  // namespace remesh::server
