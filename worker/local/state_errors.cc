// SPDX-License-Identifier: Apache-2.0
#include "worker/local/state_errors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/text/resource_names.h"

namespace remesh::worker {

absl::Status StateError(absl::StatusCode code, const char* reason, const std::string& state,
                        const std::string& what, std::map<std::string, std::string> more) {
  more["state"] = state;
  return MakeError(code, absl::StrCat("state ", state, " ", what), {reason, std::move(more)});
}

absl::Status CheckStateName(const std::string& name) {
  return ParseStateName("state", name).status();
}

Unanswered StateNotFound(const std::string& state) {
  return {StateError(absl::StatusCode::kNotFound, "STATE_NOT_FOUND", state,
                     "is not known on this host; remeshctl states list shows those that exist"),
          Awaited{.state = state, .what = Awaited::What::kState}};
}

Unanswered MemoryUnderWay(const std::string& state) {
  return {absl::UnavailableError(absl::StrCat("state ", state, " is having its memory reserved")),
          Awaited{.state = state, .what = Awaited::What::kMemory}};
}

absl::Status StateMoving(const std::string& state, const std::string& execution) {
  if (execution.empty())
    return StateError(absl::StatusCode::kAborted, "STATE_MOVING", state, "is being moved");
  return StateError(absl::StatusCode::kAborted, "STATE_MOVING", state,
                    absl::StrCat("is being moved by ", execution), {{"execution", execution}});
}

absl::Status StaleShards(const std::string& host, const std::string& state,
                         const std::string& state_uid) {
  return StateError(absl::StatusCode::kFailedPrecondition, "STALE_SHARDS", state,
                    absl::StrCat("has buffers here of an earlier state of its name, ", state_uid,
                                 ": if they are not needed, remeshctl workers discard ", host, " ",
                                 state, " ", state_uid),
                    {{"host", host}, {"state_uid", state_uid}});
}

absl::Status StateReplaced(const std::string& state, const std::string& state_uid,
                           const std::string& asked_uid) {
  return StateError(
      absl::StatusCode::kFailedPrecondition, "STATE_REPLACED", state,
      absl::StrCat("has uid ", state_uid, " here, and the call is about uid ", asked_uid,
                   ", another state of its name: GetState says which "
                   "one there is now"),
      {{"state_uid", state_uid}, {"asked_uid", asked_uid}});
}

absl::Status WrittenOnce(const std::string& state, const std::string& what) {
  return StateError(absl::StatusCode::kFailedPrecondition, "WRITE_ONCE", state,
                    absl::StrCat("is written once: ", what));
}

}  // namespace remesh::worker
