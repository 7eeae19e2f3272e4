// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "server/controller/execution_spec.h"

namespace remesh::server {

// How far a host of an execution is.
struct ExecutionHost {
  std::string name;
  bool receives = false;  // shards of the target
  bool told = false;      // of the attempt, so it must quiesce
  bool away = false;
  bool prepared = false;
  bool verified = false;
  bool committed = false;
  bool quiesced = false;
  bool settled = false;     // it quiesced, or came back since and was told what to free
  bool incomplete = false;  // back without its shards of the target
  int commit_failures = 0;
  Timestamp commit_again{0};  // when to repeat Commit, once it failed
};

// How far the hosts of an execution are; by index as ExecutionSpec::participants, which are by name.
class ExecutionHosts {
 public:
  explicit ExecutionHosts(const std::vector<Participant>& participants);
  // After a restart of the server nobody is attached, and everybody may have been told.
  void Restore(bool ended);

  size_t size() const { return hosts_.size(); }
  ExecutionHost& operator[](size_t index) { return hosts_[index]; }
  int IndexOf(const std::string& host) const;  // -1: takes no part

  bool prepared() const;
  bool verified() const;
  // Who only gave has nothing to make readable: its absence holds up nobody.
  bool committed() const;
  bool quiet() const;    // nobody who is there still runs the attempt
  bool settled() const;  // nobody still holds anything that only the execution's record explains
  // A receiver came back without its shards of the target, or will not come.
  bool incomplete() const;

  // Hosts to which Commit is to be repeated by now.
  std::vector<int> CommitsToRepeat(Timestamp now) const;
  // It is repeated ever more rarely.
  void CommitFailed(int index, Timestamp now);
  void Forgive(Timestamp pause);  // the server itself stood still

 private:
  std::vector<ExecutionHost> hosts_;
};

}  // namespace remesh::server
