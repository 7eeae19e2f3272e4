// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "remesh/v1/worker.pb.h"
#include "worker/store/generation.h"

namespace remesh::worker {

// The states of this host as the planner has reported them: which it assigned, and how far each has
// come since. What is allocated of them is the store's. Pointers are valid until the next call that
// changes the state. Not thread-safe.
class AssignedStates {
 public:
  // Replaces what is known of the state, except that what is written once stays committed. An
  // assignment without shards says that none of the state is on this host; returns false if this
  // only repeats that.
  bool Assign(const v1::Assignment& assignment);
  // The first fill of a state that is written once is committed. Ignored for a state or generation
  // that is not known here.
  void CommitWrite(const v1::CommitWrite& command);
  // The planner committed this generation of the state: until the next Assign() trainers get no
  // buffers of an earlier one, unless the decision is taken back. Retired() says the same of what
  // comes after the generation.
  void Committed(const std::string& state, const std::string& state_uid, int64_t generation);
  void Retired(const std::string& state, const std::string& state_uid, int64_t generation);
  void TakenBack(const std::string& state, const std::string& state_uid, int64_t generation);
  // The planner is about to report all states of this host, on a new stream. Forgets which states
  // have no shard here. The others are not Reported() until they are reported again.
  void OnWelcome();
  // Ignored if the state of that name has another uid.
  void Forget(const std::string& state, const std::string& state_uid);

  // nullptr if nothing is known.
  const v1::Assignment* Find(const std::string& state) const;
  // Whether the planner reported it on the stream that is open, or that was the last.
  bool Reported(const std::string& state) const;
  // The assignment whose buffers trainers may fill for the first time; nullptr if there is none, or
  // the state has a later generation.
  const v1::Assignment* ToBuild(const std::string& state) const;
  // The generation that Committed() or Retired() named since the last Assign().
  std::optional<int64_t> Passed(const std::string& state) const;
  // The latest generation that the planner has named; 0 if nothing is known.
  int64_t Latest(const std::string& state) const;

  // What the planner assigned of the state that `held` is of; nullptr if it assigned nothing, or
  // another state of the name.
  const v1::Assignment* AssignmentOf(const Generation& held) const;
  // Whether `held` belongs to the state that has the name now, as far as the planner has reported.
  bool Current(const Generation& held) const;
  // Whether `held` was committed, as far as the planner has reported. If so, it stays when a
  // trainer unseals it.
  bool IsCommitted(const Generation& held) const;
  // Whether the host has committed a later generation of which it holds nothing. Until the server
  // retires this one, it may be what the state is rebuilt from.
  bool IsOver(const Generation& held) const;
  // How many hosts have shards of it. Without an assignment of this generation since the worker's
  // start, what it was then.
  int32_t HostsOf(const Generation& held) const;

 private:
  std::map<std::string, v1::Assignment> assigned_;
  // By state that is assigned: its generations before this one are over, which Assign() has not
  // said yet.
  std::map<std::string, int64_t> passed_;
  std::set<std::string> earlier_;  // states that are assigned by an earlier stream alone
};

}  // namespace remesh::worker
