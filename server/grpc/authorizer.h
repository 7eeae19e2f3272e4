// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <grpcpp/server_context.h>

#include "absl/status/status.h"

namespace remesh {

// Decides who may do what: the one hook that every handler calls. Thread-safe.
class Authorizer {
 public:
  virtual ~Authorizer() = default;
  // `method`: "StateService/GetState". `resource`: the name that the request is about, or "". PERMISSION_DENIED to refuse.
  virtual absl::Status Check(const grpc::ServerContextBase& context, const char* method, const std::string& resource) = 0;
};

class AllowAll : public Authorizer {
 public:
  absl::Status Check(const grpc::ServerContextBase&, const char*, const std::string&) override {
    return absl::OkStatus();
  }
};

}  // namespace remesh
