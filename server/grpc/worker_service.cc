// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/worker_service.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/convert/plan_proto.h"
#include "server/callers/roles.h"
#include "server/grpc/refused_stream.h"
#include "server/grpc/worker_stream.h"

namespace remesh::server {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* WorkerService::Attach(
    CallbackServerContext* context) {
  service::HandlerInterceptors interceptors = service::HandlerInterceptors::Take(*context);
  const absl::Status status = backend_.Authorize(*context, "Attach", "");
  if (!status.ok()) {
    return new RefusedBidiStream<v1::AttachRequest, v1::AttachResponse>(status,
                                                                        std::move(interceptors));
  }
  // The context outlives the stream. Streams take turns beside the calls, so that the calls of its
  // own address keep no worker waiting. Workers that share an identity are told apart by address.
  return WorkerStream::Start(
      backend_.core,
      absl::StrCat("worker of ", CallerOf(*context), " at ", AddressOfPeer(context->peer())),
      write_budget_,
      [this, context](const std::string& host) -> absl::StatusOr<WorkerStream::Proof> {
        RETURN_IF_ERROR(backend_.Authorize(*context, "Attach", service::Resource{.host = host}));
        const bool named = WorkerOf(service::IdentityOf(*context).name) == host;
        return named ? WorkerStream::Proof::kCertificate : WorkerStream::Proof::kNone;
      },
      std::move(interceptors));
}

ServerUnaryReactor* WorkerService::ListWorkers(CallbackServerContext* context,
                                               const v1::ListWorkersRequest* request,
                                               v1::ListWorkersResponse* response) {
  return AskController(backend_, context, "ListWorkers", "", *request, response);
}

ServerUnaryReactor* WorkerService::ForgetWorker(CallbackServerContext* context,
                                                const v1::ForgetWorkerRequest* request,
                                                google::protobuf::Empty* response) {
  return AskController(backend_, context, "ForgetWorker", request->name(), *request, response);
}

ServerUnaryReactor* WorkerService::ResetWorker(CallbackServerContext* context,
                                               const v1::ResetWorkerRequest* request,
                                               google::protobuf::Empty* response) {
  return AskController(backend_, context, "ResetWorker", request->name(), *request, response);
}

ServerUnaryReactor* WorkerService::DrainWorker(CallbackServerContext* context,
                                               const v1::DrainWorkerRequest* request,
                                               google::protobuf::Empty* response) {
  return AskController(backend_, context, "DrainWorker", request->name(), *request, response);
}

ServerUnaryReactor* WorkerService::UndrainWorker(CallbackServerContext* context,
                                                 const v1::UndrainWorkerRequest* request,
                                                 google::protobuf::Empty* response) {
  return AskController(backend_, context, "UndrainWorker", request->name(), *request, response);
}

ServerUnaryReactor* WorkerService::DiscardShards(CallbackServerContext* context,
                                                 const v1::DiscardShardsRequest* request,
                                                 v1::DiscardShardsResponse* response) {
  return AskController(backend_, context, "DiscardShards", request->state(), *request, response);
}

ServerUnaryReactor* WorkerService::GetTopology(CallbackServerContext* context,
                                               const v1::GetTopologyRequest*,
                                               v1::Topology* response) {
  return AskPool(backend_, backend_.core.lookups(), context, "GetTopology", "", response,
                 [this]() -> absl::StatusOr<v1::Topology> {
                   const std::shared_ptr<const planner::Topology> topology =
                       backend_.core.topology();
                   return topology == nullptr ? v1::Topology() : proto::ToProto(*topology);
                 });
}

}  // namespace remesh::server
