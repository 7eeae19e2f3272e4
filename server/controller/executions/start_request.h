// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "remesh/v1/reshard.pb.h"

namespace remesh::server {

// What can be said of a StartExecution without any state.

// INVALID_ARGUMENT: a field is missing, out of range, or does not go with another.
// FAILED_PRECONDITION (DONATION_UNSUPPORTED).
absl::Status CheckStartRequest(const v1::StartExecutionRequest& request);

// INVALID_ARGUMENT (REQUEST_ID_REUSED): an earlier request with this id was not the same.
absl::Status RequestIdReused(const std::string& request_id);

}  // namespace remesh::server
