// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/plan_question.h"
#include "client/commands/plan_report.h"
#include "planner/canonical/canonical.h"
#include "planner/plan.h"
#include "proto/spec/plan_proto.h"
#include "proto/spec/plan_spec.h"
#include "proto/spec/text.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh {
namespace {

using Stub = v1::PlanService::Stub;

struct Options {
  Endpoint server{.address = "", .timeout_seconds = 300};
  OutputFormat format = OutputFormat::kTable;
  PlanQuestion question;
  PlanReport report;
  bool full = false;
};

struct Answer {
  v1::CreatePlanResponse response;
  v1::Explanation explanation;  // empty unless asked for
};

absl::StatusOr<Answer> PlanHere(const v1::PlanSpec& spec, const Options& options) {
  if (spec.topology().hosts().empty()) {
    return InvalidField("topology", "",
                        "must be in the spec, or come by --topology or --preset, or from the "
                        "workers that --server knows");
  }
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const ReshardRequest request, ToReshardRequest(spec, nullptr));
  ASSIGN_OR_RETURN(const CanonicalizedRequest canonical, Canonicalize(request));
  const absl::StatusOr<Plan> made = MakePlan(canonical.canonical);
  if (!made.ok()) return BindRefusal(made.status(), canonical.binding);
  const Plan& plan = *made;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Answer answer;
  ASSIGN_OR_RETURN(answer.explanation, WritePlanReport(options.report, canonical, plan));
  v1::CreatePlanResponse& response = answer.response;
  *response.mutable_plan() = ToProto(plan, canonical.canonical, canonical.binding,
                                     PlanName(canonical.canonical.fingerprint, canonical.binding));
  *response.mutable_plan()->mutable_create_time() =
      google::protobuf::util::TimeUtil::GetCurrentTime();
  response.mutable_planning()->set_seconds(seconds.count());
  response.mutable_planning()->set_cache(v1::Planning::MISS);
  if (options.full) {
    ForEachTransferProto(plan, canonical.canonical, canonical.binding,
                         [&](const v1::Transfer& transfer) {
                           *response.mutable_plan()->add_transfers() = transfer;
                         });
  }
  return answer;
}

absl::StatusOr<Answer> PlanThere(const Endpoint& server, v1::PlanSpec spec,
                                 const Options& options) {
  const std::unique_ptr<Stub> stub = v1::PlanService::NewStub(ConnectServer(server));
  v1::CreatePlanRequest request;
  *request.mutable_spec() = std::move(spec);
  Answer answer;
  v1::CreatePlanResponse& response = answer.response;
  ASSIGN_OR_RETURN(response, Call(server, *stub, &Stub::CreatePlan, request));
  ASSIGN_OR_RETURN(answer.explanation,
                   WritePlanReportOf(server, options.report, response.plan().name()));
  if (!options.full) return answer;
  v1::GetPlanRequest get;
  get.set_name(response.plan().name());
  get.set_view(v1::FULL);
  grpc::ClientContext context;
  SetDeadline(context, server.timeout_seconds);
  const auto reader = stub->StreamPlan(&context, get);
  response.clear_plan();
  for (v1::Plan part; reader->Read(&part);) response.mutable_plan()->MergeFrom(part);
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpcStatus(status, server);
  return answer;
}

Table SummaryTable(const v1::CreatePlanResponse& response) {
  const v1::Plan& plan = response.plan();
  const v1::PlanSummary& s = plan.summary();
  Table table({"PLAN", plan.name()});
  table.AddRow({"total", FormatBytes(s.bytes_total())});
  table.AddRow({"kept", FormatBytes(s.bytes_kept())});
  table.AddRow({"local", FormatBytes(s.bytes_local())});
  table.AddRow({"crossing", FormatBytes(s.bytes_crossing())});
  table.AddRow({"relayed", FormatBytes(s.bytes_relayed())});
  table.AddRow({"bottleneck", absl::StrCat(FormatBytes(s.bottleneck_bytes()), " in ",
                                           FormatSeconds(s.bottleneck_seconds()))});
  table.AddRow({"lower bound",
                absl::StrCat(FormatSeconds(s.lower_bound_seconds()), " (", s.certificate(), ")")});
  table.AddRow({"routing bound", FormatSeconds(s.routing_bound_seconds())});
  table.AddRow({"quality", absl::StrFormat("%.3f", s.quality())});
  table.AddRow({"predicted", absl::StrFormat("%s, %.3f x the busiest link (%s)",
                                             FormatSeconds(s.predicted_seconds()),
                                             s.schedule_price(), s.sharing_model())});
  table.AddRow({"peak per device", FormatBytes(s.peak_bytes_max())});
  table.AddRow({"windows", absl::StrCat(s.windows())});
  table.AddRow({"operations", absl::StrCat(s.operations())});
  table.AddRow({"missing boxes", absl::StrCat(plan.missing_size())});
  AddTargetOrders(plan.target_device_lists(), table);
  table.AddRow({"planned in", absl::StrCat(FormatSeconds(response.planning().seconds()), ", cache ",
                                           v1::Planning::Cache_Name(response.planning().cache()))});
  return table;
}

std::string BoxText(const v1::Box& box) {
  std::string text;
  for (int d = 0; d < box.lo_size(); ++d)
    absl::StrAppend(&text, d ? "," : "", box.lo(d), ":", box.hi(d));
  return absl::StrCat("[", text, "]");
}

Table TransferTable(const v1::Plan& plan) {
  Table table({"WINDOW", "FROM", "TO", "BYTES", "ARRAY", "BOX", "RELAY"});
  for (const v1::Transfer& t : plan.transfers()) {
    table.AddRow({absl::StrCat(t.window()), absl::StrCat(t.from_device()),
                  absl::StrCat(t.to_device()), absl::StrCat(t.bytes()), t.array(), BoxText(t.box()),
                  t.relay() ? "yes" : "-"});
  }
  return table;
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(v1::PlanSpec spec, ReadPlanQuestion(options.question));
  ASSIGN_OR_RETURN(const Answer answer, options.server.address.empty()
                                            ? PlanHere(spec, options)
                                            : PlanThere(options.server, std::move(spec), options));
  const v1::CreatePlanResponse& response = answer.response;
  if (options.report.explain && options.format == OutputFormat::kJson) {
    v1::ExplainPlanResponse explained;
    *explained.mutable_plan() = response.plan();
    *explained.mutable_explanation() = answer.explanation;
    std::cout << ToJson(explained, /*pretty=*/true) << std::flush;
    return absl::OkStatus();
  }
  Print(options.format, response, [&] { return SummaryTable(response); });
  if (options.format == OutputFormat::kJson) return absl::OkStatus();
  if (options.full) std::cout << TransferTable(response.plan()).ToString();
  if (options.report.explain) std::cout << ExplanationText(answer.explanation);
  std::cout << std::flush;
  return absl::OkStatus();
}

}  // namespace

void AddPlan(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("plan", "Plan a move, in this process or on a server");
  auto options = std::make_shared<Options>();
  AddOutputFlag(*sub, options->format);
  AddPlanQuestionFlags(*sub, options->question);
  sub->add_option("--server", options->server.address,
                  "Address of remesh-server; without it, plan here");
  AddPlanReportFlags(*sub, options->report);
  sub->add_option("--timeout", options->server.timeout_seconds,
                  "Longest that a call may take, seconds")
      ->check(AboveZero())
      ->capture_default_str();
  const auto set_view = [options](const std::string& view) { options->full = view == "full"; };
  sub->add_option_function<std::string>("--view", set_view,
                                        "basic or full: with transfers (default basic)")
      ->check(CLI::IsMember({"basic", "full"}));
  sub->callback([&command, options] {
    options->report.label = LabelOf(options->question);
    command = [options] { return Run(*options); };
  });
}

}  // namespace remesh
