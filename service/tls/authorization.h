// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::service {

// The identity of a caller.
struct Identity {
  std::string name;  // the SPIFFE id of the peer's certificate, else ""
};

// The job or host that a call is about; "" for none.
struct Resource {
  std::string job;
  std::string host;
};

// Decides whether `identity` may call `method` ("StartExecution") on the resource. Every handler
// asks before it does anything else. Returns OK or PERMISSION_DENIED. Thread-safe.
using Authorizer = std::function<absl::Status(const Identity& identity, const Resource& resource,
                                              std::string_view method)>;

Authorizer AllowAll();

Identity IdentityOf(const grpc::ServerContextBase& context);

// "a" for "jobs/a" and "jobs/a/states/b"; "" for anything else.
std::string JobOf(std::string_view resource_name);

// The name of a resource: jobs/..., workers/..., or "" for none.
std::string NameOf(const Resource& resource);

// The job or host in a resource name: jobs/... or workers/{host}; none for any other name.
Resource ResourceOf(std::string_view resource_name);

}  // namespace remesh::service
