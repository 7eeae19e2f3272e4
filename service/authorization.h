// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace remesh::service {

// Who calls.
struct Identity {
  std::string name;  // the SPIFFE id of the peer's certificate, else ""
};

// What a call is about; "" where it is about none.
struct Resource {
  std::string job;
  std::string host;
};

// Whether `identity` may call `method` ("StartExecution") on the resource. Every handler asks before
// it does anything. OK or PERMISSION_DENIED. Thread-safe.
using Authorizer = std::function<absl::Status(const Identity& identity, const Resource& resource,
                                              std::string_view method)>;

Authorizer AllowAll();

Identity IdentityOf(const grpc::ServerContextBase& context);

// "a" of "jobs/a" and "jobs/a/states/b"; "" of anything else.
std::string JobOf(std::string_view resource_name);

// What a resource is called: jobs/..., workers/..., or "" for none.
std::string NameOf(const Resource& resource);

// Of a name of any kind: jobs/..., workers/{host}, or of what belongs to nobody.
Resource ResourceOf(std::string_view resource_name);

}  // namespace remesh::service
