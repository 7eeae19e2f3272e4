// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {

// Deletes the state with that uid, or with "" whatever state has the name. With `wait`, returns
// when every attached host has freed its buffers; if that takes longer than the endpoint's timeout,
// OUTCOME_UNKNOWN with the code DEADLINE_EXCEEDED.
absl::StatusOr<v1::DeleteStateResponse> DeleteState(const Endpoint& server,
                                                    v1::StateService::Stub& stub,
                                                    const std::string& name, const std::string& uid,
                                                    bool wait);

}  // namespace remesh::client
