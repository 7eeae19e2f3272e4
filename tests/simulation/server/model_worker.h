// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "remesh/v1/state.pb.h"
#include "remesh/v1/worker.pb.h"

namespace remesh {

// What a worker remembers and says, without bytes: manifests survive its deaths, attempts do not.
// It seals what it is assigned, and answers each command at once; the world delays. Every rule it
// is told to break goes to `violation`.
class ModelWorker {
 public:
  using Key = std::pair<std::string, int64_t>;  // state, generation
  struct Held {
    v1::ShardPhase phase = v1::SHARD_PHASE_BUILDING;
    std::string execution;  // that writes or wrote it
    int64_t shards = 0;
    std::string state_uid;  // as assigned
  };
  struct Callbacks {
    std::function<void(v1::AttachRequest)> say;
    std::function<bool()> fails;  // whether an attempt shall fail now
    std::function<void(const std::string&)> violation;
    std::function<void(const v1::Commit&)> committing;  // before a commit takes effect
    std::function<void(const v1::Retire&)> retiring;    // before a generation goes
  };

  ModelWorker(std::string host, int64_t device, Callbacks callbacks)
      : host_(std::move(host)), device_(device), callbacks_(std::move(callbacks)) {}

  // The machine booted: nothing is left of its buffers.
  void LoseBuffers() { held_.clear(); }
  // Another life of the process.
  void Restart() {
    ++incarnation_;
    attempts_.clear();
  }
  v1::Register Registration() const;
  void Obey(const v1::AttachResponse& command);

  const std::string& host() const { return host_; }
  const std::map<Key, Held>& held() const { return held_; }
  // Readable elements of just this state and generation.
  bool holds(const v1::State& state) const {
    auto found = held_.find({state.name(), state.generation()});
    return found != held_.end() && found->second.phase == v1::SHARD_PHASE_READY &&
           found->second.state_uid == state.uid();
  }

 private:
  struct Attempt {
    int32_t windows_done = 0;
  };

  void Assign(const v1::Assignment& assignment);
  void Prepare(const v1::Prepare& prepare);
  void Grant(const v1::Grant& grant);
  void Verify(const v1::Verify& verify);
  void Commit(const v1::Commit& commit);
  void Abort(const v1::Abort& abort);
  void Fail(const v1::AttemptId& attempt, const std::string& why);

  const std::string host_;
  const int64_t device_;
  const Callbacks callbacks_;
  int64_t incarnation_ = 1;
  uint64_t highest_epoch_ = 0;
  std::map<Key, Held> held_;
  std::map<std::string, Attempt> attempts_;  // by execution
};

}  // namespace remesh
