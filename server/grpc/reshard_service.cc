// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/reshard_service.h"

#include "server/controller/values/names.h"
#include "server/grpc/refused_stream.h"
#include "server/grpc/watch_stream.h"

namespace remesh::server {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

ServerUnaryReactor* ReshardService::StartExecution(CallbackServerContext* context,
                                                   const v1::StartExecutionRequest* request,
                                                   v1::Execution* response) {
  return AskController(backend_, context, "StartExecution", request->state(), *request, response);
}

ServerUnaryReactor* ReshardService::GetExecution(CallbackServerContext* context,
                                                 const v1::GetExecutionRequest* request,
                                                 v1::Execution* response) {
  return AskController(backend_, context, "GetExecution", request->name(), *request, response);
}

ServerUnaryReactor* ReshardService::ListExecutions(CallbackServerContext* context,
                                                   const v1::ListExecutionsRequest* request,
                                                   v1::ListExecutionsResponse* response) {
  return AskController(backend_, context, "ListExecutions", request->parent(), *request, response);
}

grpc::ServerWriteReactor<v1::Execution>* ReshardService::WatchExecution(
    CallbackServerContext* context, const v1::WatchExecutionRequest* request) {
  absl::Status status = backend_.Authorize(*context, "WatchExecution", request->name());
  // States can be watched too, but not by this call.
  if (status.ok()) status = ParseExecutionName("name", request->name()).status();
  if (!status.ok()) return new RefusedStream<v1::Execution>(status);
  absl::StatusOr<OpenWatches::Place> place = backend_.core.open_watches().Begin(CallerOf(*context));
  if (!place.ok()) return new RefusedStream<v1::Execution>(place.status());
  return WatchStream<v1::Execution>::Start(backend_.core, *std::move(place), request->name());
}

ServerUnaryReactor* ReshardService::CancelExecution(CallbackServerContext* context,
                                                    const v1::CancelExecutionRequest* request,
                                                    v1::Execution* response) {
  return AskController(backend_, context, "CancelExecution", request->name(), *request, response);
}

ServerUnaryReactor* ReshardService::ResolveExecution(CallbackServerContext* context,
                                                     const v1::ResolveExecutionRequest* request,
                                                     v1::Execution* response) {
  return AskController(backend_, context, "ResolveExecution", request->name(), *request, response);
}

}  // namespace remesh::server
