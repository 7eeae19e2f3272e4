// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/report/html.h"
#include "planner/report/trace.h"
#include "planner/report/traffic.h"
#include "proto/spec/explain_proto.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh {
namespace {

constexpr int kDomainsShown = 16;

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, absl::StrCat("cannot write ", path),
                   {.reason = "FILE_NOT_WRITTEN", .metadata = {{"path", path}}});
}

std::string RatioText(double ratio) {
  return std::isfinite(ratio) ? absl::StrFormat("%.2f x", ratio) : "inf";
}

Table StrategyTable(const v1::Explanation& explanation) {
  Table table({"STRATEGY", "CROSSING", "BUSIEST LINK", "SECONDS", "RATIO", "HOW"});
  for (const v1::StrategyCost& row : explanation.strategies()) {
    table.AddRow({row.name(), FormatBytes(row.bytes_crossing()),
                  FormatBytes(row.bottleneck_bytes()), FormatSeconds(row.seconds()),
                  RatioText(row.ratio()), row.how()});
  }
  return table;
}

Table DomainTable(const v1::Explanation& explanation) {
  Table table({"HOST OR DOMAIN", "IN", "CAPACITY", "SECONDS", "OUT", "CAPACITY", "SECONDS", ""});
  const auto rate = [](double bytes_per_second) {
    return absl::StrCat(FormatBytes(std::llround(bytes_per_second)), "/s");
  };
  const int shown = std::min(explanation.domains_size(), kDomainsShown);
  for (int i = 0; i < shown; ++i) {
    const v1::DomainTraffic& row = explanation.domains(i);
    table.AddRow({row.name(), FormatBytes(row.bytes_in()), rate(row.ingress_bytes_per_second()),
                  FormatSeconds(row.seconds_in()), FormatBytes(row.bytes_out()),
                  rate(row.egress_bytes_per_second()), FormatSeconds(row.seconds_out()),
                  row.binding() ? "binds" : ""});
  }
  return table;
}

}  // namespace

void AddPlanReportFlags(CLI::App& app, PlanReport& report, CLI::Option* server) {
  app.add_flag("--explain", report.explain,
               "What binds, bytes per host and domain, what other strategies would cost");
  app.add_option("--trace", report.trace,
                 "Write the predicted schedule as a trace for Perfetto or chrome://tracing")
      ->excludes(server);
  app.add_option("--html", report.html, "Write a page that shows the plan")->excludes(server);
  app.add_option("--checkpoint-rate", report.checkpoint_bytes_per_second,
                 "Bytes per second of one host to and from storage, for comparison")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

absl::StatusOr<v1::Explanation> WritePlanReport(const PlanReport& report,
                                                const CanonicalizedRequest& canonicalized,
                                                const Plan& plan) {
  const auto& [request, binding] = canonicalized;
  if (!report.trace.empty()) {
    RETURN_IF_ERROR(WriteText(report.trace, ChromeTrace(request, plan, binding)));
  }
  if (!report.needs_explanation()) return v1::Explanation();
  const ExplainOptions options{.checkpoint_bytes_per_second = report.checkpoint_bytes_per_second};
  ASSIGN_OR_RETURN(const Explanation explanation, Explain(request, plan, binding, options));
  if (!report.html.empty()) {
    const Traffic traffic = TrafficOf(request, plan, binding);
    RETURN_IF_ERROR(WriteText(report.html, HtmlPage(request, plan, explanation, traffic)));
  }
  return ToProto(explanation);
}

absl::StatusOr<v1::Explanation> ExplainThere(const Endpoint& server, const PlanReport& report,
                                             const std::string& name) {
  using Stub = v1::PlanService::Stub;
  const std::unique_ptr<Stub> stub = v1::PlanService::NewStub(ConnectServer(server));
  v1::ExplainPlanRequest request;
  request.set_name(name);
  request.set_checkpoint_bytes_per_second(report.checkpoint_bytes_per_second);
  ASSIGN_OR_RETURN(v1::ExplainPlanResponse response,
                   Call(server, *stub, &Stub::ExplainPlan, request));
  return std::move(*response.mutable_explanation());
}

std::string ExplanationText(const v1::Explanation& explanation) {
  std::string text = absl::StrCat("\nWhat binds\n  no plan is faster: ", explanation.certificate());
  if (!explanation.routing_certificate().empty()) {
    absl::StrAppend(&text, "\n  nor one without third hosts: ", explanation.routing_certificate());
  }
  absl::StrAppend(&text, "\n  busiest in this plan: ", explanation.bottleneck(), "\n\n",
                  StrategyTable(explanation).ToString(), "\n", DomainTable(explanation).ToString());
  const int more = explanation.domains_size() - kDomainsShown;
  if (more > 0) absl::StrAppend(&text, "and ", more, " less busy\n");
  return text;
}

}  // namespace remesh
