// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

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
  // Runs the waiting calls again; to be called after a change.
  void Retry();
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
  void Wait(CallId id, bool wait, absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call,
            Done<v1::ShardsResponse> done);
  void End(CallId id, absl::StatusOr<v1::ShardsResponse> result);
  void Lent(CallId id, const absl::Status& status);

  struct Waiting {
    absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call;
    Done<v1::ShardsResponse> done;
    bool patient = false;   // waits on every MayCome() error, not for memory alone
    std::string wanted;     // the state, if the call waits for it to be created
    std::string reserving;  // the state, if the call waits for its memory
    std::string lending;    // the state, if the call's own memory is being opened
  };

  // Whether the call must wait, given its result. Records in `waiting` what it waits for.
  static bool MustWait(Waiting& waiting, const absl::Status& status);

  StateBuffers* const buffers_;
  Wanted wanted_;
  std::map<CallId, Waiting> waiting_;
};

}  // namespace remesh::worker
