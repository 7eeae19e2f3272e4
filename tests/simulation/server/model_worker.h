// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "remesh/v1/state.pb.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// One host's part of a generation, as an execution ("": trainers) wrote it.
struct Part {
  std::string state_uid;
  int64_t generation = 0;
  std::string execution = "";
  auto operator<=>(const Part&) const = default;
};

// What a worker remembers and says, without bytes: manifests and its record survive its deaths,
// attempts do not.
// It seals what it is assigned, and answers each command at once; the world delays. Every rule it
// is told to break goes to `violation`.
class ModelWorker {
 public:
  using Key = std::pair<std::string, int64_t>;  // state, generation
  struct Shard {
    int64_t lo = 0, hi = 0;  // its box, of one dimension
    std::string content;     // the write that filled it, whatever the worker says
  };
  struct Held {
    v1::ShardPhase phase = v1::SHARD_PHASE_BUILDING;
    std::string execution;  // that writes or wrote it
    std::vector<Shard> shards;
    std::string state_uid;   // as assigned
    std::string write = "";  // as the worker says
    bool write_once = false;

    bool pending() const {
      return phase == v1::SHARD_PHASE_PREPARED || phase == v1::SHARD_PHASE_VERIFIED;
    }
  };
  struct Callbacks {
    std::function<void(v1::AttachRequest)> send;
    std::function<bool()> fails;  // whether an attempt shall fail now
    std::function<void(const std::string&)> violation;
    std::function<void(const v1::Commit&)> committing;          // before a commit takes effect
    std::function<void(const std::string& state_uid)> filling;  // by trainers, for the first time
  };

  ModelWorker(std::string host, int64_t device, bool has_nccl, Callbacks callbacks)
      : host_(std::move(host)),
        device_(device),
        has_nccl_(has_nccl),
        callbacks_(std::move(callbacks)) {}

  // The machine booted: nothing is left of its buffers, nor of the record beside them.
  void LoseBuffers() {
    held_.clear();
    ++secret_;
    highest_epoch_ = 0;
    last_incarnation_ = 0;
    position_.Clear();
  }
  // Another life of the process.
  void Restart() {
    ++nonce_;
    incarnation_ = 0;
    attempts_.clear();
    assigned_.clear();
    communicators_.clear();
  }
  // A trainer begins to write the newest readable generation of the state again, by this name,
  // unless it is written once.
  void Unseal(const std::string& state, const std::string& write);
  // It is done with that; or, with nothing unsealed, says that what is there is of this write.
  void Seal(const std::string& state, const std::string& write);
  // A planted fault: writes have no names here.
  void IgnoreWrites() { ignores_writes_ = true; }
  v1::Register Registration() const;
  void OnCommand(const v1::AttachResponse& command);

  const std::string& host() const { return host_; }
  const std::map<Key, Held>& held() const { return held_; }
  // Its parts that are readable, or unsealed; `with_pending`: and those on their way to that.
  std::set<Part> parts(bool with_pending) const;
  bool holds(const Part& part) const { return parts(false).contains(part); }
  // The newest readable, or unsealed, generation of the state; null: none.
  const std::pair<const Key, Held>* Newest(const std::string& state) const;
  // What the execution's attempt here reads; empty: it reads nothing here.
  std::set<std::string> SourceOf(const std::string& execution) const;
  // Whether it runs an attempt that moves the state, during which trainers may not write.
  bool moves(const std::string& state_uid) const;
  // Executions of which it runs an attempt.
  std::set<std::string> attempts() const;
  // Attempts that were to use communicators of an earlier one.
  int reused() const { return reused_; }

 private:
  struct Attempt {
    std::string state_uid;
    int32_t windows_done = 0;
    std::string communicators = "";     // that it exchanges by
    std::set<std::string> source = {};  // contents of the shards that it reads
  };
  v1::StateManifest Manifest(const Key& key) const;
  Held* Writable(const std::string& state);
  void Fill(Held& held, const std::string& write) const;
  void SendChanged(const std::string& state);

  void Assign(const v1::Assignment& assignment);
  void Take(const std::string& state);
  void Unassign(const std::string& state, const std::string& state_uid);
  void Prepare(const v1::Prepare& prepare);
  void Grant(const v1::Grant& grant);
  void Verify(const v1::Verify& verify);
  void Commit(const v1::Commit& commit);
  void Abort(const v1::Abort& abort);
  void Retire(const v1::Retire& retire);
  void Forget(const v1::ForgetState& forget);
  void TakeCommunicators(const v1::Prepare& prepare);
  void Fail(const v1::AttemptId& attempt, const std::string& why);

  const std::string host_;
  const int64_t device_;
  const bool has_nccl_;
  const Callbacks callbacks_;
  int64_t incarnation_ = 0;  // as welcomed
  uint64_t nonce_ = 1;       // of the process
  // The record.
  uint64_t secret_ = 1;
  int64_t last_incarnation_ = 0;
  uint64_t highest_epoch_ = 0;
  v1::JournalPosition position_;

  std::map<Key, Held> held_;
  std::map<std::string, Attempt> attempts_;         // by execution
  std::map<std::string, v1::Assignment> assigned_;  // by state, the last one
  std::string communicators_;                       // that it keeps; empty: none
  int reused_ = 0;
  bool ignores_writes_ = false;
};

}  // namespace remesh::server
