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

// Calls "/service/method" of any kind with one empty message and returns how it ended. request_id:
// as the header x-request-id; empty: none.
absl::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                       const std::string& request_id = "");

}  // namespace remesh::server
