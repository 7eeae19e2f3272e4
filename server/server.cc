// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <climits>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/grpc/admin_service.h"
#include "server/grpc/coordination_service.h"
#include "server/grpc/plan_service.h"
#include "server/grpc/reshard_service.h"
#include "server/grpc/state_service.h"
#include "server/grpc/worker_service.h"
#include "service/front/listen.h"
#include "service/tls/credentials.h"

namespace remesh::server {
namespace {

constexpr const char* kServices[] = {"",
                                     "remesh.v1.StateService",
                                     "remesh.v1.PlanService",
                                     "remesh.v1.ReshardService",
                                     "remesh.v1.WorkerService",
                                     "remesh.v1.CoordinationService",
                                     "remesh.v1.AdminService"};

constexpr auto kHandshakeMax = std::chrono::seconds(5);

// A message of the largest size may be on its way from each address, or many small ones.
service::NoiseLimits NoiseLimitsFor(int message_bytes_max) {
  service::NoiseLimits limits;
  limits.of_connection = static_cast<uint64_t>(message_bytes_max) + limits.least;
  limits.of_address = 4 * limits.of_connection;
  limits.of_all = 16 * limits.of_connection;
  return limits;
}

int Millis(std::chrono::nanoseconds duration) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::min<int64_t>(millis, INT_MAX));
}

void SetServing(grpc::Server& server, bool serving) {
  for (const char* service : kServices)
    server.GetHealthCheckService()->SetServingStatus(service, serving);
}

std::vector<std::unique_ptr<grpc::Service>> MakeServices(
    const Backend& backend, const std::function<v1::ServerInfo()>& describe) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(std::make_unique<StateService>(backend));
  services.push_back(std::make_unique<PlanService>(backend));
  services.push_back(std::make_unique<ReshardService>(backend));
  services.push_back(std::make_unique<WorkerService>(backend));
  services.push_back(std::make_unique<CoordinationService>(backend));
  services.push_back(std::make_unique<AdminService>(backend, describe));
  return services;
}

std::vector<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(
    const std::shared_ptr<const service::CertificateKeeper>& certificates) {
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials;
  for (int i = 0; i < service::FrontDoor::kTakers; ++i)
    credentials.push_back(service::MakeServerCredentials(certificates));
  return credentials;
}

// gRPC keeps an acceptor locked while it reads a connection on the thread that hands it over, so
// each of these threads has one of its own. So has each acceptor its credentials: they tell one
// acceptor, once, when certificates change.
std::vector<service::FrontDoor::Taker> AddAcceptors(
    grpc::ServerBuilder& builder,
    const std::vector<std::shared_ptr<grpc::ServerCredentials>>& credentials) {
  std::vector<service::FrontDoor::Taker> takers;
  for (const auto& one : credentials) {
    auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, one);
    takers.emplace_back([acceptor = std::move(acceptor)](int connection) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters accepted;
      accepted.fd = connection;
      acceptor->HandleNewConnection(&accepted);
    });
  }
  return takers;
}

}  // namespace

Server::Server(Options options, Core& core)
    : options_(std::move(options)),
      core_(core),
      limits_(options_.limits, SteadyClock()),
      services_(MakeServices({core_, options_.authorizer, limits_, options_.audit.get()},
                             options_.describe)),
      credentials_(MakeCredentials(options_.certificates)) {}

void Server::AddArguments(grpc::ServerBuilder& builder) const {
  builder.SetMaxReceiveMessageSize(options_.message_bytes_max);
  builder.SetMaxSendMessageSize(options_.message_bytes_max);
  // A ping after each message that comes, to learn how much may be under way, costs more than a
  // heartbeat. Large messages need none: gRPC opens the window for the message that it reads.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options_.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options_.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  // A connection that reaches this age takes no new calls, so the client opens another. Calls in
  // progress may go on, because the end of an Attach stream would fail the moves of its host.
  if (options_.max_connection_age.count() > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               std::max(1, Millis(options_.max_connection_age)));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, INT_MAX);
  }
  // Covers the time from the first byte to HTTP/2's settings, TLS included. AcceptLoop covers the
  // silence before.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(kHandshakeMax));
  // An Attach stream is a call, so its connection is never idle.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Millis(options_.idle_max));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Options options, Core& core) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<Server> server(new Server(std::move(options), core));
  const Options& o = server->options_;
  ASSIGN_OR_RETURN(service::Listeners listeners,
                   service::ListenOn(o.listen_address, o.keepalive_timeout));
  server->port_ = listeners.port;
  grpc::ServerBuilder builder;
  auto acceptors = AddAcceptors(builder, server->credentials_);
  server->AddArguments(builder);
  for (const auto& service : server->services_) builder.RegisterService(service.get());
  o.extend(builder);
  server->door_ = std::make_unique<service::FrontDoor>(builder);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return MakeError(absl::StatusCode::kInternal, "gRPC does not start",
                     {.reason = "GRPC_FAILED", .metadata = {}});
  }
  SetServing(*server->server_, true);
  server->door_->Open(std::move(listeners.sockets), std::move(acceptors),
                      {.per_address_max = o.connections_per_address,
                       .unfinished = o.unfinished_calls,
                       .messages = o.message_bytes,
                       .noise = NoiseLimitsFor(o.message_bytes_max)});
  return server;
}

Server::~Server() { Shutdown(); }

std::shared_ptr<grpc::Channel> Server::InProcessChannel() { return server_->InProcessChannel({}); }

void Server::SetNotServing() {
  if (server_ != nullptr) SetServing(*server_, false);
}

void Server::Shutdown() {
  if (server_ == nullptr) return;
  SetNotServing();
  core_.Shutdown();
  door_->Shutdown(*server_, options_.shutdown_grace);
  door_ = nullptr;
  server_ = nullptr;
}

}  // namespace remesh::server
