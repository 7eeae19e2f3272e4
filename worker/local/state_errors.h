// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "worker/local/outcome.h"

namespace remesh::worker {

// Errors about a state on this host. Each names the state, in its text and among its metadata.

// "state NAME what".
absl::Status StateError(absl::StatusCode code, const char* reason, const std::string& state,
                        const std::string& what, std::map<std::string, std::string> more = {});
// INVALID_ARGUMENT for a name that no state can have. A caller that waits for it would wait
// forever.
absl::Status CheckStateName(const std::string& name);
// NOT_FOUND (STATE_NOT_FOUND): the planner has not reported it. Awaits that.
Unanswered StateNotFound(const std::string& state);
// Awaits memory of the state, which is being reserved or freed.
Unanswered MemoryUnderWay(const std::string& state);
// ABORTED (STATE_MOVING; execution, if it is known).
absl::Status StateMoving(const std::string& state, const std::string& execution = "");
// FAILED_PRECONDITION (STALE_SHARDS; host, state, state_uid): an earlier state of the same name
// left buffers on this host, which only an operator who knows that they are not needed may free.
absl::Status StaleShards(const std::string& host, const std::string& state,
                         const std::string& state_uid);
// FAILED_PRECONDITION (STATE_REPLACED; state, state_uid, asked_uid): the state of that name has
// another uid here than the call names.
absl::Status StateReplaced(const std::string& state, const std::string& state_uid,
                           const std::string& asked_uid);
// FAILED_PRECONDITION (WRITE_ONCE): what is sealed of the state stays so.
absl::Status WrittenOnce(const std::string& state, const std::string& what);

}  // namespace remesh::worker
