// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "remesh/v1/admin.pb.h"
#include "server/callers/call_limits.h"
#include "server/core.h"
#include "service/front/front_door.h"
#include "service/rpc/audit_log.h"
#include "service/tls/authorization.h"
#include "service/tls/certificate_keeper.h"

namespace remesh::server {

// Serves every service of remesh-server, with health and reflection, on one port and in process.
class Server {
 public:
  // Messages of its streams come by the ten thousand a second, so its handler runs the interceptors
  // of its calls, if they are left to it (service::HandlerInterceptors).
  static constexpr char kBusyMethod[] = "/remesh.v1.WorkerService/Attach";

  struct Options {
    std::string listen_address = "127.0.0.1:0";
    int connections_per_address = 256;
    int message_bytes_max = 64 << 20;
    std::chrono::nanoseconds keepalive_time = std::chrono::seconds(10);
    std::chrono::nanoseconds keepalive_timeout = std::chrono::seconds(5);
    std::chrono::nanoseconds idle_max = std::chrono::minutes(5);  // of connections without a call
    std::chrono::nanoseconds max_connection_age{0};               // 0: none
    std::chrono::nanoseconds shutdown_grace = std::chrono::seconds(5);  // for calls under way
    service::Authorizer authorizer = service::AllowAll();
    CallLimits::Options limits;                                      // default: no limit
    std::shared_ptr<service::AuditLog> audit;                        // null: no audit log
    std::shared_ptr<service::UnfinishedCalls> unfinished_calls;      // null: not counted
    std::shared_ptr<service::MessageBytes> message_bytes;            // null: not counted
    std::shared_ptr<const service::CertificateKeeper> certificates;  // null: no TLS
    std::function<v1::ServerInfo()> describe = [] { return v1::ServerInfo(); };  // for GetServer
    // Adds parts that the services do not know, such as interceptors.
    std::function<void(grpc::ServerBuilder&)> extend = [](grpc::ServerBuilder&) {};
  };

  // `core` must outlive the server. UNAVAILABLE (LISTEN_FAILED) with the cause when the server
  // cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Options options, Core& core);
  ~Server();

  int port() const { return port_; }
  std::shared_ptr<grpc::Channel> InProcessChannel();

  void SetCallRate(double per_second, double burst) { limits_.SetRate(per_second, burst); }

  // Tells load balancers to go elsewhere; calls are still served.
  void SetNotServing();
  // Sets NOT_SERVING, ends calls that wait (see Core::Shutdown), then closes the port. Idempotent.
  void Shutdown();

 private:
  Server(Options options, Core& core);
  void AddArguments(grpc::ServerBuilder& builder) const;

  const Options options_;
  Core& core_;
  CallLimits limits_;
  // Held by gRPC's base class, so that files that include this one need not compile the callbacks.
  const std::vector<std::unique_ptr<grpc::Service>> services_;
  int port_ = 0;
  const std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials_;  // of each acceptor
  std::unique_ptr<grpc::Server> server_;      // uses all of the above
  std::unique_ptr<service::FrontDoor> door_;  // last: it uses the server
};

}  // namespace remesh::server
