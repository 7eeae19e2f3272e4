// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "remesh/v1/local.pb.h"
#include "worker/local/state_buffers.h"

namespace remesh {

// Calls of trainers, those that wait included. Not thread-safe; every `done` runs exactly once, on
// the caller's thread.
class LocalCalls {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;
  using CallId = uint64_t;

  // `buffers` must outlive it.
  explicit LocalCalls(StateBuffers* buffers) : buffers_(buffers) {}

  void Allocate(CallId id, const v1::AllocateRequest& request, Done<v1::ShardsResponse> done);
  void GetShards(CallId id, const v1::GetShardsRequest& request, Done<v1::ShardsResponse> done);

  // Something changed: calls that wait try again.
  void Retry();
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
  };

  StateBuffers* const buffers_;
  std::map<CallId, Waiting> waiting_;
};

}  // namespace remesh
