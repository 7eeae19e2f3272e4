// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <compare>
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
#include "worker/local/state_buffers.h"

namespace remesh::worker {

// Runs the calls of trainers and keeps those that wait. Not thread-safe. Each `done` runs exactly
// once, on the caller's thread.
class LocalCalls {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;
  using CallId = uint64_t;

  // Called when a call waits for a state that this host does not know.
  using Wanted = absl::AnyInvocable<void(const std::string& state)>;

  // `buffers` must outlive this.
  LocalCalls(StateBuffers* buffers, Wanted wanted)
      : buffers_(buffers), wanted_(std::move(wanted)) {}

  void Allocate(CallId id, const v1::AllocateRequest& request, Done<v1::ShardsResponse> done);
  // `lender`: the user who calls.
  void Lend(CallId id, const v1::LendRequest& request, uid_t lender, Done<v1::SealResponse> done);
  void GetShards(CallId id, const v1::GetShardsRequest& request, Done<v1::ShardsResponse> done);

  int waiting() const { return static_cast<int>(waiting_.size()); }
  // Runs the waiting calls of a state again; to be called after a change of it.
  void Retry(const std::string& state);
  // Runs the calls again that wait for this generation to be readable: all its shards are sealed.
  void Sealed(const std::string& state, int64_t generation);
  // Ends the calls that wait for memory of `state`: it is reserved, or `status` says why it is not.
  void Reserved(const std::string& state, const absl::Status& status);
  // Calls `wanted` again for each state that a call waits for.
  void SayWanted();
  // Ends a waiting call with CANCELLED, and gives up what it lends. Does nothing if the call does
  // not wait.
  void Cancel(CallId id);
  // Ends every waiting call with UNAVAILABLE.
  void Close();

 private:
  // What a call waits for.
  enum class Awaits {
    kState,       // that the state is created
    kGeneration,  // that the generation comes to this host
    kSeal,        // that the generation, which is here, is readable
    kMemory,      // the state's memory, which is being reserved
    kOpening,     // the call's own memory, which is being opened
  };
  struct Key {
    std::string state;
    Awaits awaits = Awaits::kState;
    int64_t generation = 0;  // of kSeal alone
    auto operator<=>(const Key&) const = default;
  };
  struct Waiting {
    absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call;
    Done<v1::ShardsResponse> done;
    bool patient = false;  // waits on every error that may pass, not for memory alone
    Key key;
  };

  void Wait(CallId id, bool wait, absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call,
            Done<v1::ShardsResponse> done);
  // What the call must wait for, given its result; nullopt if it has ended.
  static std::optional<Key> WaitsFor(bool patient, const absl::Status& status);
  // Records what a call in `waiting_` waits for from now on.
  void Await(CallId id, Waiting& waiting, Key key);
  void Unlist(CallId id, const Key& key);
  void Retry(const std::vector<CallId>& ids);
  void End(CallId id, absl::StatusOr<v1::ShardsResponse> result);
  void Lent(CallId id, const absl::Status& status);

  StateBuffers* const buffers_;
  Wanted wanted_;
  std::map<CallId, Waiting> waiting_;
  // The same calls by what they wait for, so that a change costs only what it concerns.
  std::map<Key, std::set<CallId>> by_key_;
};

}  // namespace remesh::worker
