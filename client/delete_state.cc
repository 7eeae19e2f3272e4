// SPDX-License-Identifier: Apache-2.0
#include "client/delete_state.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/watch/execution_wait.h"

namespace remesh::client {

absl::StatusOr<v1::DeleteStateResponse> DeleteState(const Endpoint& server,
                                                    v1::StateService::Stub& stub,
                                                    const std::string& name, const std::string& uid,
                                                    bool wait) {
  v1::DeleteStateRequest request;
  request.set_name(name);
  request.set_uid(uid);
  request.set_wait(wait);
  absl::StatusOr<v1::DeleteStateResponse> response =
      Call(server, stub, &v1::StateService::Stub::DeleteState, request);
  if (!wait || !absl::IsDeadlineExceeded(response.status())) return response;
  return MakeError(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat(name, " was to be deleted, and ", server.address, " did not say within ",
                   server.timeout_seconds,
                   " s (--timeout) that hosts have freed it; the deletion goes on once the server "
                   "has it, and the same command waits again"),
      {.reason = kOutcomeUnknown, .metadata = {{"state", name}, {"address", server.address}}});
}

}  // namespace remesh::client
