// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace remesh::service {

// Statuses on the wire. Errors carry one google.rpc.ErrorInfo with the reason and metadata of
// base/error.h and this domain, and a google.rpc.RetryInfo where the metadata has
// retry_after_seconds (a decimal number, at most an hour); what is longer than an HTTP/2 header may be is shortened.
inline constexpr char kErrorDomain[] = "remesh";

grpc::Status StatusToGrpc(const absl::Status& status);
// The code and message, and reason and metadata where the peer gave an ErrorInfo.
absl::Status StatusFromGrpc(const grpc::Status& status);

google::rpc::Status StatusToProto(const absl::Status& status);
absl::Status StatusFromProto(const google::rpc::Status& status);

}  // namespace remesh::service
