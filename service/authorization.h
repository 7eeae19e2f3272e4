// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh {

// Who calls.
struct Identity {
  std::string name;  // SPIFFE id, else common name of the certificate, else ""
};

// Whether `identity` may call `method` ("StartExecution") on resources of `job` ("" where a call is
// about no job). Every handler asks before it does anything. OK or PERMISSION_DENIED. Thread-safe.
using Authorizer = std::function<absl::Status(const Identity& identity, std::string_view job,
                                              std::string_view method)>;

Authorizer AllowAll();

Identity IdentityOf(const grpc::ServerContextBase& context);

// "a" of "jobs/a" and "jobs/a/states/b"; "" of anything else.
std::string JobOf(std::string_view resource_name);

}  // namespace remesh
