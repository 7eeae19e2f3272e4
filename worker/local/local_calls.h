// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// Calls of trainers, those that wait included. Not thread-safe; every `done` runs exactly once, on
// the caller's thread.
class LocalCalls {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;
  using CallId = uint64_t;

  // A call waits for a state that is not known here.
  using Wanted = absl::AnyInvocable<void(const std::string& state)>;

  // `buffers` must outlive it.
  LocalCalls(StateBuffers* buffers, Wanted wanted)
      : buffers_(buffers), wanted_(std::move(wanted)) {}

  void Allocate(CallId id, const v1::AllocateRequest& request, Done<v1::ShardsResponse> done);
  void Lend(CallId id, const v1::LendRequest& request, Done<v1::SealResponse> done);
  void GetShards(CallId id, const v1::GetShardsRequest& request, Done<v1::ShardsResponse> done);

  int waiting() const { return static_cast<int>(waiting_.size()); }
  // Something changed: calls that wait try again.
  void Retry();
  // Memory of a state is reserved, or it cannot be: ends the calls that wait for it.
  void Reserved(const std::string& state, const absl::Status& status);
  // Says again which states are wanted.
  void SayWanted();
  // Ends a call that waits with CANCELLED; nothing happens if none does.
  void Cancel(CallId id);
  // Ends every call that waits with UNAVAILABLE.
  void Close();

 private:
  void Wait(CallId id, bool wait, absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call,
            Done<v1::ShardsResponse> done);
  void End(CallId id, const absl::Status& status);

  struct Waiting {
    absl::AnyInvocable<absl::StatusOr<v1::ShardsResponse>()> call;
    Done<v1::ShardsResponse> done;
    bool patient = false;   // waits for all that time may heal, not for memory alone
    std::string wanted;     // the state, if that is what it waits for
    std::string reserving;  // the state, if it waits for its memory
  };

  // Whether the call is to wait, given its result; notes what for.
  static bool MustWait(Waiting& waiting, const absl::Status& status);

  StateBuffers* const buffers_;
  Wanted wanted_;
  std::map<CallId, Waiting> waiting_;
};

}  // namespace remesh::worker
