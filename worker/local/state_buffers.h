// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "remesh/v1/local.pb.h"
#include "remesh/v1/worker.pb.h"
#include "worker/files/files_queue.h"
#include "worker/local/assigned_states.h"
#include "worker/local/lending.h"
#include "worker/local/outcome.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {

// Carries out the trainers' operations on this host's buffers: those of the states that the planner
// assigned (AssignedStates) and that are allocated (BufferStore). Errors name the field and value.
// Not thread-safe.
class StateBuffers {
 public:
  struct Hooks {
    absl::AnyInvocable<std::string(const std::string& state)>
        moved_by;  // the execution that reads or writes the state; "": none
    absl::AnyInvocable<void(const v1::StateManifest& manifest)>
        changed;  // called when seals or buffers changed
    absl::AnyInvocable<void(const std::string& state, const absl::Status& status)>
        reserved;  // Allocate's memory is reserved, or why not; OK if given up: ask again. Also OK
                   // when Lend's memory is open or was given up
  };
  using LendDone = absl::AnyInvocable<void(Outcome<v1::SealResponse>)>;

  // `host` is for error messages. `files` reserves memory; `loans`, which must have another thread,
  // opens and closes what trainers lend. So neither waits for the other, or for other users who
  // keep the other busy. All three must outlive this.
  StateBuffers(std::string host, BufferStore* store, FilesQueue* files, FilesQueue* loans,
               Hooks hooks);

  // Records the planner's assignment: trainers may allocate the buffers of its state, or, if it has
  // no shards, none of the state is on this host. Buffers of an earlier state with the same name
  // are hidden from trainers and keep their memory until Forget(). Returns false if this only
  // repeats that nothing is here, so that no call can be answered otherwise than before.
  bool Assign(const v1::Assignment& assignment);
  // Calls `changed` for a generation that other code changed, if it is on this host.
  void Announce(const std::string& state, int64_t generation);
  // What the planner decided about a generation, as in AssignedStates.
  void Committed(const std::string& state, const std::string& state_uid, int64_t generation) {
    assigned_.Committed(state, state_uid, generation);
  }
  void Retired(const std::string& state, const std::string& state_uid, int64_t generation) {
    assigned_.Retired(state, state_uid, generation);
  }
  void TakenBack(const std::string& state, const std::string& state_uid, int64_t generation) {
    assigned_.TakenBack(state, state_uid, generation);
  }
  // The planner committed the first fill of a state that is written once: it is readable, and no
  // memory is given out for it any more. Ignored for a state or generation that is not known here.
  void CommitWrite(const v1::CommitWrite& command);
  // Says that Forget() will follow: calls for another state of that name wait until then.
  void WillForget(const std::string& state, const std::string& state_uid);
  // Frees everything of the state with this uid, and nothing of other states that have or had its
  // name. Returns false while memory is being reserved for the state; `reserved` is called later.
  bool Forget(const std::string& state, const std::string& state_uid);
  // Frees the generations whose lease has ended and calls `changed`; gives up opening memory by
  // such a lease. Skips states that move: the caller must call this again when the move has ended.
  void GiveLost();
  // Cancels all reservations and loans that are not made yet, because the worker stops.
  void Close();
  // The planner is about to report all states of this host, on a new stream. Forgets which states
  // have no shard here. The others give out no new memory until they are reported: a move without
  // this host may have ended while the stream was down.
  void OnWelcome() { assigned_.OnWelcome(); }
  // Whether trainers have shards of the state here. If so, this host takes part in what moves them,
  // and is sent each generation.
  bool HasShards(const std::string& state) const;

  // The calls of LocalService, without waiting; see local.proto. An outcome that awaits kMemory
  // changes when `reserved` was called. Lend by the user `lender` awaits kOpening while its memory
  // is being opened; a later task of the strand calls `done` with the answer. If the state changed
  // in the meantime, that awaits kMemory, or, if the request has tokens, which are used up, is
  // ABORTED (STATE_CHANGED).
  Outcome<v1::ShardsResponse> Allocate(const v1::AllocateRequest& request);
  absl::StatusOr<v1::SealResponse> Seal(const v1::SealRequest& request);
  Outcome<v1::SealResponse> Lend(const v1::LendRequest& request, uid_t lender, LendDone done);
  // Gives up the loan whose memory is being opened, if there is one.
  void StopLending(const std::string& state);
  absl::StatusOr<v1::SealResponse> Unseal(const v1::UnsealRequest& request);
  Outcome<v1::ShardsResponse> GetShards(const v1::GetShardsRequest& request);
  absl::Status Release(const v1::ReleaseRequest& request);

 private:
  static constexpr int64_t kFirst = 1;  // the generation that trainers write

  // Whether the state is written once, as far as this host knows. A manifest knows it before the
  // planner has reported the state to this life of the worker.
  bool IsWrittenOnce(const std::string& state) const;
  // The uid of the state that has the name; nullopt if this host knows no such state.
  std::optional<std::string> UidOf(const std::string& state) const;
  // STATE_REPLACED if this host knows another uid than `asked`, which may be empty.
  std::optional<Unanswered> CheckUid(const std::string& state, const std::string& asked) const;
  // The newest generation of the current state that is not pending; nullptr if there is none.
  const Generation* Newest(const std::string& state) const;
  // Like Newest(), but says why there is none. Starts the reservation if the state can be
  // allocated, and then awaits it.
  Outcome<const Generation*> NewestOrReserve(const std::string& state);
  std::optional<Unanswered> CheckNoneStale(const std::string& state) const;
  absl::Status Reserve(const v1::Assignment& assignment);
  void Reserved(Generation generation, const absl::Status& filled);
  void GiveUp(const std::string& state);
  // Frees a generation that is no longer readable, and calls `changed`. `write` is what the state's
  // next shards here are of, as far as it has begun.
  void Give(const Generation* held, const std::string& write = "");
  // What is here of a first fill that is committed stays; what is not sealed is no part of it.
  void KeepCommitted(const v1::Assignment& committed);

  // state_buffers_writing.cc
  // An empty generation if the state has no shard on this host; nullopt for other states.
  std::optional<Generation> Absent(const std::string& state) const;
  // Whether a trainer may write these shards of `held`.
  absl::Status CheckWritable(const Generation& held, const std::vector<int>& shards) const;
  absl::StatusOr<const Generation*> ForSealing(const std::string& state) const;
  absl::StatusOr<v1::SealResponse> SetSealed(const Generation* held, const std::vector<int>& shards,
                                             bool sealed, const std::string& write);
  absl::Status CheckReleasable(const Generation& held) const;

  // state_buffers_reading.cc
  // The generation if the planner reported that none of its shards is here; nullopt for others.
  std::optional<Generation> AbsentGeneration(const std::string& state, int64_t generation) const;
  std::string GenerationsHere(const std::string& state) const;
  Unanswered NoGeneration(const std::string& state, int64_t generation) const;
  bool AwaitsCommit(const Generation& held) const;

  // state_buffers_lending.cc
  struct Opening;
  // Whether two assignments of one state need the same memory.
  static bool SameBuffers(v1::Assignment a, v1::Assignment b);
  std::optional<Unanswered> CheckMayLend(const std::string& state) const;
  LoanTotals TotalsFor(uid_t lender);
  void Open(std::shared_ptr<Opening> opening);
  static Unanswered StateChanged(const Opening& opening);
  void Opened(Opening& opening);
  Outcome<v1::SealResponse> FinishLending(Opening& opening);
  v1::SealResponse GiveBack(const Generation* held, const std::string& write);

  struct Reserving {
    std::string state_uid;
    std::shared_ptr<FilesQueue::Job> job;
    bool given_up = false;
    bool lends = false;                            // it opens memory that is lent
    std::shared_ptr<const Lease> lease = nullptr;  // by which it is lent
  };

  const std::string host_;
  BufferStore* const store_;
  FilesQueue* const files_;
  FilesQueue* const loans_;
  Hooks hooks_;
  AssignedStates assigned_;
  std::set<std::pair<std::string, std::string>> forgetting_;  // state, uid
  std::map<std::string, Reserving> reserving_;                // by state
  std::vector<std::weak_ptr<const LoanSize>> sizes_;          // of loans; expired: it is closed
};

}  // namespace remesh::worker
