// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "prometheus/registry.h"

namespace remesh::service {

// Counts calls under the names that the gRPC ecosystem uses, so that its dashboards work:
// grpc_server_started_total, grpc_server_handled_total{grpc_code}, grpc_server_handling_seconds,
// grpc_server_msg_received_total, grpc_server_msg_sent_total, with labels grpc_type, grpc_service,
// grpc_method. Codes are spelled as in Go ("InvalidArgument"). Calls of methods that no service has
// count under one method "unknown", because callers can name anything and every series stays for
// ever. Thread-safe once the methods are known.
//
//   builder.experimental().SetInterceptorCreators(RpcMetricsInterceptors(registry,
//   {"remesh.v1.PlanService"}));
class RpcMetrics {
 public:
  struct Method;  // the series of one method

  // `registry` must outlive this.
  explicit RpcMetrics(prometheus::Registry& registry);
  ~RpcMetrics();

  // Starts every series of a linked-in service at 0. REQUIRES: the name is that of a generated
  // service.
  void AddService(const std::string& full_name);

  // `path`: "/package.Service/Method".
  void AddMethod(const std::string& path, const std::string& type);

  // The series for a path; any path is allowed.
  Method& OfMethod(absl::string_view path) const;

 private:
  struct Families;

  std::unique_ptr<Method> Make(const prometheus::Labels& labels) const;

  const std::unique_ptr<Families> families_;
  const std::unique_ptr<Method> unknown_;
  absl::flat_hash_map<std::string, std::unique_ptr<Method>> methods_;
};

// For ServerBuilder; keeps `registry` alive. Also logs each call at debug level once it has ended.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
RpcMetricsInterceptors(std::shared_ptr<prometheus::Registry> registry,
                       const std::vector<std::string>& services);

}  // namespace remesh::service
