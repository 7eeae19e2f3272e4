// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/credentials.h"

namespace remesh {
namespace {

constexpr const char* kServices[] = {"", "remesh.v1.StateService", "remesh.v1.PlanService",
                                     "remesh.v1.ReshardService", "remesh.v1.WorkerService"};

int Millis(std::chrono::nanoseconds duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

void SetServing(grpc::Server& server, bool serving) {
  for (const char* service : kServices)
    server.GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace

Server::Server(Options options, Core& core)
    : options_(std::move(options)),
      core_(core),
      backend_{core_, options_.authorizer},
      states_(backend_),
      plans_(backend_),
      reshards_(backend_),
      workers_(backend_) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Options options, Core& core) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<Server> server(new Server(std::move(options), core));
  const Options& o = server->options_;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(o.listen_address, MakeServerCredentials(), &server->port_);
  builder.SetMaxReceiveMessageSize(o.message_bytes_max);
  builder.SetMaxSendMessageSize(o.message_bytes_max);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(o.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(o.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT,
                             0);  // a second server must not share the port silently
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           &server->states_, &server->plans_, &server->reshards_, &server->workers_}) {
    builder.RegisterService(service);
  }
  o.extend(builder);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return MakeError(
        absl::StatusCode::kUnavailable, absl::StrCat("cannot listen on ", o.listen_address),
        {.reason = "LISTEN_FAILED", .metadata = {{"listen_address", o.listen_address}}});
  }
  SetServing(*server->server_, true);
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
  server_->Shutdown(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(options_.shutdown_grace));
  server_->Wait();
  server_ = nullptr;
}

}  // namespace remesh
