// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace remesh::server {

// The server's services, for tests that call every method.
inline constexpr const char* kServices[] = {
    "remesh.v1.StateService",  "remesh.v1.PlanService",         "remesh.v1.ReshardService",
    "remesh.v1.WorkerService", "remesh.v1.CoordinationService", "remesh.v1.AdminService"};

// Calls "/service/method", whatever its kind, with one message of any bytes, and returns how the
// call ended. `request_id` goes into the header x-request-id; empty: no header.
absl::Status CallWith(const std::string& message, const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method, const std::string& request_id = "");

// As CallWith(), with an empty message, which every method can parse.
absl::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& request_id = "");

}  // namespace remesh::server
