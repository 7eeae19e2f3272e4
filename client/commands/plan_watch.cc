// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_watch.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/watch/plan_changes.h"
#include "client/yaml_output.h"
#include "proto/text/text.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const PlanChange& change) {
  Json object = {{"event", KindOf(change)}};
  if (!change.what.empty()) object["change"] = change.what;
  object["plan"] = Json::parse(proto::ToJson(change.plan, /*pretty=*/false));
  return object;
}

void PrintChange(OutputFormat format, const PlanChange& change) {
  switch (format) {
    case OutputFormat::kJson:
      std::cout << ToJson(change).dump() << "\n";
      break;
    case OutputFormat::kYaml:
      std::cout << "---\n" << ToYaml(ToJson(change));
      break;
    case OutputFormat::kName:
      std::cout << change.plan.name() << "\n";
      break;
    default:
      std::cout << LineOf(change) << "\n";
  }
}

absl::StatusOr<v1::ListPlansResponse> ListAll(const Endpoint& server, v1::PlanService::Stub& stub,
                                              const PlanFilterFlags& flags) {
  v1::ListPlansRequest request;
  request.set_page_size(1000);
  // At each list: --older counts from now.
  ASSIGN_OR_RETURN(*request.mutable_filter(), ToFilter(flags, absl::Now()));
  absl::StatusOr<v1::ListPlansResponse> listed =
      CallAllPages(server, stub, &v1::PlanService::Stub::ListPlans, request);
  RETURN_IF_ERROR(AtFilterFlag(listed.status()));
  return listed;
}

}  // namespace

void AddPlanWatchFlags(CLI::App& app, PlanWatchFlags& flags) {
  AddPlanFilterFlags(app, flags.filter);
  app.add_option("--interval", flags.interval_seconds, "Time between two lists, seconds")
      ->transform(Seconds())
      ->capture_default_str();
}

absl::Status WatchPlans(const Endpoint& server, OutputFormat format, const PlanWatchFlags& flags) {
  const auto stub = v1::PlanService::NewStub(ConnectServer(server));
  PlanChanges changes;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListPlansResponse listed, ListAll(server, *stub, flags.filter));
    for (const PlanChange& change : changes.Next(listed.plans())) PrintChange(format, change);
    RETURN_IF_ERROR(CheckStdout());
    absl::SleepFor(absl::Seconds(flags.interval_seconds));
  }
}

}  // namespace remesh::client
