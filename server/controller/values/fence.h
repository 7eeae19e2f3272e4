// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "remesh/v1/coordination.pb.h"

namespace remesh::server {

// OK if `epoch` is the present one of the scope, else FAILED_PRECONDITION (STALE_EPOCH). Quick.
using FenceCheck = std::function<absl::Status(const std::string& scope, int64_t epoch)>;

// The check of a server without worlds: every epoch is stale.
absl::Status NoWorlds(const std::string& scope, int64_t epoch);

// Whether a call with this fence may change the state, by `is_present`. INVALID_ARGUMENT if the
// scope is none, or another job's; STALE_EPOCH. `state`: its full name, which may be a bad one.
//
// An epoch is over from one event of the controller to the next, so this is asked in the event
// that decides on the change, not only when the call comes.
absl::Status CheckFence(const v1::Fence& fence, const std::string& state,
                        const FenceCheck& is_present);

// The same for a request that may have a fence; without one, OK.
template <typename Request>
absl::Status CheckFenceOf(const Request& request, const std::string& state,
                          const FenceCheck& is_present) {
  if (!request.has_fence()) return absl::OkStatus();
  return CheckFence(request.fence(), state, is_present);
}

}  // namespace remesh::server
