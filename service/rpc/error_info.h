// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace remesh::service {

// Conversion of statuses to and from the wire. An error carries one google.rpc.ErrorInfo with this
// domain and the reason and metadata of base/error.h, and a google.rpc.RetryInfo if the metadata
// has retry_after_seconds (a decimal number, at most an hour). Its further problems
// (base/problems.h) are the field_violations of a google.rpc.BadRequest, as many as fit. Texts
// longer than an HTTP/2 header may be are shortened.
inline constexpr char kErrorDomain[] = "remesh";

grpc::Status StatusToGrpc(const absl::Status& status);
// Returns the code and message, and the reason and metadata if the peer sent an ErrorInfo.
absl::Status StatusFromGrpc(const grpc::Status& status);

google::rpc::Status StatusToProto(const absl::Status& status);
absl::Status StatusFromProto(const google::rpc::Status& status);

}  // namespace remesh::service
