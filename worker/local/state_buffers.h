// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "remesh/v1/local.pb.h"
#include "remesh/v1/worker.pb.h"
#include "worker/store/buffer_store.h"
#include "worker/store/files_queue.h"

namespace remesh::worker {

// FAILED_PRECONDITION (STALE_SHARDS; host, state, state_uid): an earlier state of that name left
// buffers on this host, which only somebody who knows may free.
absl::Status StaleShards(const std::string& host, const std::string& state,
                         const std::string& state_uid);

// What trainers may do to this host's buffers. Knows the states that the planner assigned; the
// store knows those that are allocated. Errors name the field and value. Not thread-safe.
// One for each call of trainers and each word of the planner: it has more than 25 methods.
class StateBuffers {
 public:
  struct Hooks {
    absl::AnyInvocable<bool(const std::string& state)>
        moving;  // an attempt reads or writes the state
    absl::AnyInvocable<void(const v1::StateManifest& manifest)>
        changed;  // seals or buffers changed
    absl::AnyInvocable<void(const std::string& state, const absl::Status& status)>
        reserved;  // what Allocate began is there, or not: why
  };

  // `host`: for errors. `store` and `files` must outlive it.
  StateBuffers(std::string host, BufferStore* store, FilesQueue* files, Hooks hooks);

  // The planner's word: buffers of the state may be allocated; without shards, that none of it lies
  // here. What an earlier state of the same name left is not shown to trainers any more, and keeps
  // its place until it is forgotten.
  void Assign(const v1::Assignment& assignment);
  // Tells of a generation that others changed, if it is here.
  void Announce(const std::string& state, int64_t generation);
  // Frees everything of the state of that uid, nothing of others that have or had its name. False
  // while memory is being reserved for it: then reserved() comes.
  bool Forget(const std::string& state, const std::string& state_uid);
  // Frees what was lent by those who are gone, and says so, unless the state moves: to be called again
  // when that has ended.
  void GiveLost();
  // Gives up what is being reserved: the worker stops.
  void Close();
  // The planner tells anew which states have no shard here.
  void ForgetAbsent();

  // The calls of LocalService, without waiting: see there. NOT_FOUND (STATE_NOT_FOUND,
  // GENERATION_NOT_FOUND) may become OK later, and so may FAILED_PRECONDITION (NOT_READABLE);
  // NOT_FOUND (GENERATION_RETIRED) never does. UNAVAILABLE (BEING_RESERVED): ask again when
  // reserved() has come.
  absl::StatusOr<v1::ShardsResponse> Allocate(const v1::AllocateRequest& request);
  absl::StatusOr<v1::SealResponse> Seal(const v1::SealRequest& request);
  absl::StatusOr<v1::SealResponse> Lend(const v1::LendRequest& request);
  absl::StatusOr<v1::SealResponse> Unseal(const v1::UnsealRequest& request);
  absl::StatusOr<v1::ShardsResponse> GetShards(const v1::GetShardsRequest& request);
  absl::Status Release(const v1::ReleaseRequest& request);

 private:
  // Whether the state that has the name now wrote it, as far as the planner has told.
  bool Current(const Generation& held) const;
  // Whether it was committed, as far as the planner has told: what trainers unseal of it stays.
  bool Committed(const Generation& held) const;
  // The newest generation of a state that is the trainers'; nullptr when nothing is allocated.
  const Generation* Newest(const std::string& state) const;
  // The same, or an error; BEING_RESERVED if it must be and can be allocated first.
  absl::StatusOr<const Generation*> NewestOrReserve(const std::string& state);
  absl::Status CheckNoneStale(const std::string& state) const;
  // Frees a generation that is not readable any more, and says so.
  void Give(const Generation* held);
  absl::Status Reserve(const v1::Assignment& assignment);
  void Reserved(Generation generation, const absl::Status& filled);
  void GiveUp(const std::string& state);
  // What this host has of a state that lies elsewhere: nothing; nullopt for other states.
  std::optional<Generation> Absent(const std::string& state) const;
  absl::StatusOr<const Generation*> ForSealing(const std::string& state) const;
  absl::Status NoGeneration(const std::string& state, int64_t generation) const;
  absl::StatusOr<v1::SealResponse> SetSealed(const Generation* held, const std::vector<int>& shards,
                                             bool sealed);

  struct Reserving {
    std::string state_uid;
    std::shared_ptr<FilesQueue::Job> job;
    bool given_up = false;
  };

  const std::string host_;
  BufferStore* const store_;
  FilesQueue* const files_;
  Hooks hooks_;
  std::map<std::string, v1::Assignment> assigned_;
  std::map<std::string, Reserving> reserving_;  // by state
};

}  // namespace remesh::worker
