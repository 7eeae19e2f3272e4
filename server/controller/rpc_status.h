// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace remesh {

// With google.rpc.ErrorInfo among the details.
google::rpc::Status ToRpcStatus(const absl::Status& status);

}  // namespace remesh
