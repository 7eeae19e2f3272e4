// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/state_service.h"

#include "base/error.h"
#include "server/controller/values/names.h"
#include "server/grpc/refused_stream.h"
#include "server/grpc/watch_stream.h"
#include "server/questions/place_state.h"

namespace remesh::server {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

ServerUnaryReactor* StateService::CreateState(CallbackServerContext* context,
                                              const v1::CreateStateRequest* request,
                                              v1::State* response) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  Completion completion(reactor);
  const absl::Status status = backend_.Authorize(*context, "CreateState", request->state().name());
  if (!status.ok()) {
    completion.Finish(status);
    return reactor;
  }
  auto made = std::make_shared<server::CreateState>();
  auto place = [=, &core = backend_.core](planner::Budget& budget) {
    v1::StateSpec spec = request->state().spec();
    if (spec.has_topology()) spec.mutable_topology()->clear_from_workers();  // the server's to say
    auto placed = PlaceState(spec, core.topology().get(), budget);
    if (placed.ok()) {
      made->placed = *std::move(placed);
      return absl::OkStatus();
    }
    absl::Status bad = AtField("state.spec", placed.status());
    // The controller knows whether the workers' topology still lacks some of them.
    if (!absl::IsInvalidArgument(bad) || !spec.topology().hosts().empty()) return bad;
    made->misfit = std::move(bad);
    return absl::OkStatus();
  };
  auto create = [=, &core = backend_.core,
                 completion = std::move(completion)](absl::Status status) mutable {
    if (!status.ok()) return completion.Finish(status);
    made->request = *request;
    CallController(core, context, std::move(*made), response, std::move(completion));
  };
  backend_.core.desk().Run(AskerOf(context), std::move(place), std::move(create),
                           PlanDesk::Place::kLookups);
  return reactor;
}

ServerUnaryReactor* StateService::GetState(CallbackServerContext* context,
                                           const v1::GetStateRequest* request,
                                           v1::State* response) {
  return AskController(backend_, context, "GetState", request->name(), *request, response);
}

ServerUnaryReactor* StateService::ListStates(CallbackServerContext* context,
                                             const v1::ListStatesRequest* request,
                                             v1::ListStatesResponse* response) {
  return AskController(backend_, context, "ListStates", request->parent(), *request, response);
}

grpc::ServerWriteReactor<v1::State>* StateService::WatchState(
    CallbackServerContext* context, const v1::WatchStateRequest* request) {
  absl::Status status = backend_.Authorize(*context, "WatchState", request->name());
  // Executions can be watched too, but not by this call.
  if (status.ok()) status = ParseStateName("name", request->name()).status();
  if (!status.ok()) return new RefusedStream<v1::State>(status);
  absl::StatusOr<OpenWatches::Place> place = backend_.core.open_watches().Begin(CallerOf(*context));
  if (!place.ok()) return new RefusedStream<v1::State>(place.status());
  return WatchStream<v1::State>::Start(backend_.core, *std::move(place), request->name());
}

ServerUnaryReactor* StateService::UpdateState(CallbackServerContext* context,
                                              const v1::UpdateStateRequest* request,
                                              v1::UpdateStateResponse* response) {
  return AskController(backend_, context, "UpdateState", request->name(), *request, response);
}

ServerUnaryReactor* StateService::DeleteState(CallbackServerContext* context,
                                              const v1::DeleteStateRequest* request,
                                              v1::DeleteStateResponse* response) {
  const auto ask = request->wait() ? WaitForController<v1::DeleteStateResponse>
                                   : AskController<v1::DeleteStateResponse>;
  return ask(backend_, context, "DeleteState", request->name(), *request, response);
}

}  // namespace remesh::server
