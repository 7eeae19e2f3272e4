// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "worker/store/generation.h"

namespace remesh::worker {

// Which names of writes a host takes for its shards; "Writes" in docs/protocols/buffers.md.

// FAILED_PRECONDITION (WRITE_ID_NEEDED) of a call that begins a write of a state with shards on
// `hosts` hosts, of which the others would look as if they had done so.
absl::Status WriteIdNeeded(const std::string& state, int32_t hosts);

// The write of `held` once it is sealed by this name. FAILED_PRECONDITION (WRITE_DIFFERS);
// ABORTED (STATE_MOVING) for what would change a write that an execution moves: `moved_by` returns
// its name, or "".
absl::StatusOr<std::string> WriteToSeal(const Generation& held, const std::string& name,
                                        absl::FunctionRef<std::string()> moved_by);

// As WriteToSeal() for a generation that was written once and is committed: its write stays.
absl::StatusOr<std::string> WriteOfCommitted(const Generation& held, const std::string& name);

}  // namespace remesh::worker
