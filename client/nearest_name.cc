// SPDX-License-Identifier: Apache-2.0
#include "client/nearest_name.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/text/nearest.h"
#include "remesh/v1/plan.grpc.pb.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"
#include "remesh/v1/worker.grpc.pb.h"

namespace remesh::client {
namespace {

using Names = std::vector<std::string>;

constexpr double kListSeconds = 2;  // the error itself is known already

// The names on the first page of a list; none if the server does not answer.
template <typename Service, typename Request, typename Response, typename Item>
Names FirstPage(const Endpoint& server, Request request,
                grpc::Status (Service::Stub::*list)(grpc::ClientContext*, const Request&,
                                                    Response*),
                const google::protobuf::RepeatedPtrField<Item>& (Response::*items)() const) {
  request.set_page_size(1000);
  grpc::ClientContext context;
  SetDeadline(context, std::min(server.timeout_seconds, kListSeconds));
  Response response;
  const auto stub = Service::NewStub(ConnectServer(server));
  Names names;
  if (!((*stub).*list)(&context, request, &response).ok()) return names;
  for (const auto& item : (response.*items)()) names.push_back(item.name());
  return names;
}

Names States(const Endpoint& server) {
  v1::ListStatesRequest request;
  request.set_view(v1::ListStatesRequest::BASIC);
  return FirstPage<v1::StateService>(server, request, &v1::StateService::Stub::ListStates,
                                     &v1::ListStatesResponse::states);
}

Names Executions(const Endpoint& server) {
  return FirstPage<v1::ReshardService>(server, v1::ListExecutionsRequest(),
                                       &v1::ReshardService::Stub::ListExecutions,
                                       &v1::ListExecutionsResponse::executions);
}

Names Plans(const Endpoint& server) {
  v1::ListPlansRequest request;
  request.set_view(v1::SUMMARY);
  return FirstPage<v1::PlanService>(server, request, &v1::PlanService::Stub::ListPlans,
                                    &v1::ListPlansResponse::plans);
}

Names Workers(const Endpoint& server) {
  return FirstPage<v1::WorkerService>(server, v1::ListWorkersRequest(),
                                      &v1::WorkerService::Stub::ListWorkers,
                                      &v1::ListWorkersResponse::workers);
}

struct Kind {
  const char* in_names;  // what the names of this kind have in them
  const char* list;      // the command that lists them
  Names (*names)(const Endpoint&);
};
constexpr Kind kKinds[] = {{"/states/", "states list", States},
                           {"/executions/", "executions list", Executions},
                           {"plans/", "plans list", Plans},
                           {"workers/", "workers list", Workers}};

// The name that the error is about.
std::string NameIn(const ErrorInfo& info) {
  for (const char* key : {"name", "plan", "state"}) {
    if (const auto value = info.metadata.find(key); value != info.metadata.end())
      return value->second;
  }
  return "";
}

}  // namespace

absl::Status WithNearestName(const absl::Status& status, const Endpoint& server) {
  if (!absl::IsNotFound(status)) return status;
  const ErrorInfo info = GetErrorInfo(status);
  const std::string name = NameIn(info);
  for (const Kind& kind : kKinds) {
    if (!absl::StrContains(name, kind.in_names)) continue;
    std::string hint = DidYouMean(name, NearInEachPart(name, kind.names(server)));
    if (hint.empty()) hint = absl::StrCat("; remeshctl ", kind.list, " shows those that exist");
    return MakeError(status.code(), absl::StrCat(std::string(status.message()), hint), info);
  }
  return status;
}

}  // namespace remesh::client
