// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_events.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/commands/plan_filter_flags.h"
#include "client/server_stream.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

std::string LineOf(const v1::WatchPlansResponse& event) {
  std::string line = v1::WatchPlansResponse::Event_Name(event.event());
  if (event.has_plan()) absl::StrAppend(&line, " ", event.plan().name());
  if (event.tier() != v1::CACHE_TIER_UNSPECIFIED) {
    absl::StrAppend(&line, " from ", v1::CacheTier_Name(event.tier()));
  }
  if (event.cause() != v1::WatchPlansResponse::CAUSE_UNSPECIFIED) {
    absl::StrAppend(&line, " for ", v1::WatchPlansResponse::Cause_Name(event.cause()));
  }
  return line;
}

}  // namespace

absl::Status PrintPlanEvents(const Endpoint& server, OutputFormat format,
                             const v1::PlanFilter& filter) {
  const auto stub = v1::PlanService::NewStub(ConnectServer(server));
  v1::WatchPlansRequest request;
  *request.mutable_filter() = filter;
  ServerStream<v1::WatchPlansResponse> stream(
      server, [&](grpc::ClientContext* context) { return stub->WatchPlans(context, request); });
  v1::WatchPlansResponse event;  // the first is SYNCED if no plan is there
  for (bool read = stream.Read(event); read; read = stream.ReadNextChange(event)) {
    PrintNext(format, event, LineOf(event));
    RETURN_IF_ERROR(CheckStdout());
  }
  return AtFilterFlag(stream.End());
}

}  // namespace remesh::client
