// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace remesh::server {

// The server's services, for tests that call all there is.
inline constexpr const char* kServices[] = {"remesh.v1.StateService", "remesh.v1.PlanService",
                                            "remesh.v1.ReshardService", "remesh.v1.WorkerService",
                                            "remesh.v1.AdminService"};

// Calls "/service/method" of any kind with one message, whatever its bytes, and returns how it
// ended. request_id: as the header x-request-id; empty: none.
absl::Status CallWith(const std::string& message, const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method, const std::string& request_id = "");

// The same with an empty message, which every method can read.
absl::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& request_id = "");

}  // namespace remesh::server
