// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/plan.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/missing_field.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/commands/plan_question.h"
#include "client/commands/plan_report.h"
#include "client/transfer_output.h"
#include "client/watch/plan_stream.h"
#include "planner/canonical/canonical.h"
#include "planner/make_plan.h"
#include "proto/convert/plan_counts.h"
#include "proto/convert/plan_proto.h"
#include "proto/convert/plan_spec.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

using PlanStub = v1::PlanService::Stub;

struct PlanCommandOptions {
  Endpoint server{.address = "", .timeout_seconds = 300};
  OutputFormat format = OutputFormat::kTable;
  PlanQuestion question;
  PlanReport report;
  bool here = false;
  bool full = false;
};

struct Answer {
  bool here = false;                // planned in this process: no server knows the plan
  v1::CreatePlanResponse response;  // without transfers
  v1::Explanation explanation;      // empty unless asked for
  // Visits the plan's transfers; call it once. Set only for the full view.
  std::function<absl::Status(absl::FunctionRef<void(const v1::Transfer&)>)> for_each_transfer;
};

struct PlannedHere {
  planner::CanonicalizedRequest request;
  planner::Plan plan;
};

absl::StatusOr<PlannedHere> MakePlanHere(const v1::PlanSpec& spec) {
  if (spec.topology().hosts().empty()) {
    return MissingField("topology",
                        "must be in the spec, or come by --topology or --preset, or from the "
                        "workers that --server knows");
  }
  ASSIGN_OR_RETURN(const planner::ReshardRequest request, proto::ToReshardRequest(spec, nullptr));
  ASSIGN_OR_RETURN(planner::CanonicalizedRequest canonical, planner::Canonicalize(request));
  absl::StatusOr<planner::Plan> made = planner::MakePlan(canonical.canonical);
  if (!made.ok()) return proto::BindRefusal(made.status(), canonical.binding);
  return PlannedHere{std::move(canonical), *std::move(made)};
}

absl::StatusOr<Answer> PlanHere(const v1::PlanSpec& spec, const PlanCommandOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(PlannedHere made, MakePlanHere(spec));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const auto planned = std::make_shared<const PlannedHere>(std::move(made));
  const auto& [canonical, binding] = planned->request;
  Answer answer{.here = true};
  ASSIGN_OR_RETURN(answer.explanation,
                   WritePlanReport(options.report, planned->request, planned->plan));
  v1::CreatePlanResponse& response = answer.response;
  *response.mutable_plan() = proto::ToProto(planned->plan, canonical, binding,
                                            proto::PlanName(canonical.fingerprint, binding));
  *response.mutable_plan()->mutable_create_time() =
      google::protobuf::util::TimeUtil::GetCurrentTime();
  proto::SetCounts(proto::CountsOf(canonical.request), *response.mutable_plan());
  response.mutable_plan()->set_compute_seconds(seconds.count());
  response.mutable_planning()->set_seconds(seconds.count());
  response.mutable_planning()->set_cache(v1::Planning::MISS);
  if (!options.full) return answer;
  answer.for_each_transfer = [planned](absl::FunctionRef<void(const v1::Transfer&)> visit) {
    proto::ForEachTransferProto(planned->plan, planned->request.canonical, planned->request.binding,
                                visit);
    return absl::OkStatus();
  };
  return answer;
}

absl::StatusOr<Answer> PlanThere(const Endpoint& server, v1::PlanSpec spec,
                                 const PlanCommandOptions& options) {
  const std::unique_ptr<PlanStub> stub = v1::PlanService::NewStub(ConnectServer(server));
  v1::CreatePlanRequest request;
  *request.mutable_spec() = std::move(spec);
  Answer answer;
  v1::CreatePlanResponse& response = answer.response;
  ASSIGN_OR_RETURN(response, Call(server, *stub, &PlanStub::CreatePlan, request));
  ASSIGN_OR_RETURN(answer.explanation,
                   WritePlanReportOf(server, options.report, response.plan().name()));
  if (!options.full) return answer;
  ASSIGN_OR_RETURN(std::shared_ptr<PlanStream> stream,
                   PlanStream::Open(server, response.plan().name()));
  *response.mutable_plan() = stream->head();
  answer.for_each_transfer = [stream](absl::FunctionRef<void(const v1::Transfer&)> visit) {
    return stream->ForEachTransfer(visit);
  };
  return answer;
}

std::string PlannedIn(const v1::Planning& planning, bool here) {
  const std::string seconds = FormatSeconds(planning.seconds());
  if (here) return absl::StrCat(seconds, ", in this process: no server has this plan");
  return absl::StrCat(seconds, ", cache ", v1::Planning::Cache_Name(planning.cache()));
}

Table SummaryTable(const v1::CreatePlanResponse& response, bool here) {
  const v1::Plan& plan = response.plan();
  const v1::PlanSummary& s = plan.summary();
  Table table({"PLAN", plan.name()});
  table.AddRow({"total", FormatBytes(s.total_bytes())});
  table.AddRow({"kept", FormatBytes(s.kept_bytes())});
  table.AddRow({"local", FormatBytes(s.local_bytes())});
  table.AddRow({"crossing", FormatBytes(s.crossing_bytes())});
  table.AddRow({"relayed", FormatBytes(s.relayed_bytes())});
  table.AddRow({"bottleneck", absl::StrCat(FormatBytes(s.bottleneck_bytes()), " in ",
                                           FormatSeconds(s.bottleneck_seconds()))});
  table.AddRow({"lower bound",
                absl::StrCat(FormatSeconds(s.lower_bound_seconds()), " (", s.certificate(), ")")});
  table.AddRow({"routing bound", FormatSeconds(s.routing_bound_seconds())});
  table.AddRow({"quality", absl::StrFormat("%.3f", s.quality())});
  table.AddRow(
      {"fabric", absl::StrFormat("%s of at least %s (%s)", FormatSeconds(s.fabric_seconds()),
                                 FormatSeconds(s.fabric_bound_seconds()), s.fabric_certificate())});
  table.AddRow(
      {"schedule", absl::StrFormat("%s, %.3f x the busiest link or fabric",
                                   FormatSeconds(s.schedule_seconds()), s.schedule_price())});
  table.AddRow(
      {"predicted", absl::StrFormat("%s with what messages cost (%s)",
                                    FormatSeconds(s.predicted_seconds()), s.sharing_model())});
  AddAssumed(response.planning().hosts_assumed(), table);
  table.AddRow({"peak per device", FormatBytes(s.max_peak_bytes())});
  table.AddRow({"windows", absl::StrCat(s.windows())});
  table.AddRow({"messages", absl::StrCat(s.messages())});
  table.AddRow({"missing boxes", absl::StrCat(plan.missing_boxes())});
  AddTargetOrders(plan.target_device_lists(), table);
  table.AddRow({"planned in", PlannedIn(response.planning(), here)});
  return table;
}

absl::Status PrintJson(const Answer& answer, const google::protobuf::Message& message) {
  if (answer.for_each_transfer) return PrintJsonWithTransfers(message, answer.for_each_transfer);
  Print(OutputFormat::kJson, message, [] { return Table({}); });
  return absl::OkStatus();
}

void WarnOfWindows(int64_t windows) {
  if (windows <= planner::kManyWindows) return;
  std::cerr << absl::StrFormat(
      "remeshctl: warning: the plan takes %d windows, more than %d; a wider options.window_bytes "
      "takes fewer\n",
      windows, planner::kManyWindows);
}

absl::Status PrintAnswer(const Answer& answer, OutputFormat format, bool explain) {
  const v1::CreatePlanResponse& response = answer.response;
  WarnOfWindows(response.plan().summary().windows());
  v1::ExplainPlanResponse explained;
  if (explain) {
    *explained.mutable_plan() = response.plan();
    *explained.mutable_explanation() = answer.explanation;
  }
  const google::protobuf::Message& message =
      explain ? static_cast<const google::protobuf::Message&>(explained) : response;
  if (format == OutputFormat::kJson) return PrintJson(answer, message);
  Print(format, message, [&] { return SummaryTable(response, answer.here); });
  if (format == OutputFormat::kName && answer.here) {
    std::cerr << "remeshctl: planned in this process: no server has this plan; with --server one "
                 "makes and keeps it\n";
  }
  if (!IsTable(format)) return absl::OkStatus();
  if (answer.for_each_transfer) RETURN_IF_ERROR(PrintTransferTable(answer.for_each_transfer));
  if (explain) std::cout << ExplanationText(answer.explanation);
  return absl::OkStatus();
}

absl::Status Run(const PlanCommandOptions& options) {
  if (options.full) RETURN_IF_ERROR(CheckFormatOfTransfers(options.format));
  ASSIGN_OR_RETURN(v1::PlanSpec spec, ReadPlanQuestion(options.question));
  const bool here = options.here || options.server.address.empty();
  const absl::StatusOr<Answer> answer =
      here ? PlanHere(spec, options) : PlanThere(options.server, std::move(spec), options);
  RETURN_IF_ERROR(options.question.Refusal(answer.status()));
  return PrintAnswer(*answer, options.format, options.report.explain);
}

}  // namespace

void AddPlan(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("plan", "Plan a move, in this process or on a server");
  auto options = std::make_shared<PlanCommandOptions>();
  AddOutputFlag(*sub, options->format);
  AddPlanQuestionFlags(*sub, options->question);
  AddServerFlag(*sub, options->server,
                "Address of remesh-server, HOST:PORT; without it, plan here");
  // Cannot exclude --server, because the environment may set that too.
  sub->add_flag("--here", options->here, "Plan in this process, whatever REMESH_SERVER says");
  AddPlanReportFlags(*sub, options->report);
  AddTimeoutFlag(*sub, options->server);
  AddFullFlags(*sub, options->full);
  sub->callback([&command, options] {
    options->report.label = LabelOf(options->question);
    command = [options] { return Run(*options); };
  });
}

}  // namespace remesh::client
