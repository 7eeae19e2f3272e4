// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plan_report.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/commands/plan_files.h"
#include "planner/report/html.h"
#include "planner/report/trace.h"
#include "proto/convert/explain_proto.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

using PlanStub = v1::PlanService::Stub;

constexpr int kDomainsShown = 16;

absl::StatusOr<std::string> Render(const Endpoint& server, PlanStub& stub, const PlanReport& report,
                                   const std::string& name, v1::RenderPlanRequest::Form form) {
  v1::RenderPlanRequest request;
  request.set_name(name);
  request.set_form(form);
  request.set_checkpoint_bytes_per_second(report.checkpoint_bytes_per_second);
  request.set_label(report.label);
  grpc::ClientContext context;
  SetDeadline(context, server.timeout_seconds);
  const auto reader = stub.RenderPlan(&context, request);
  std::string text;
  for (v1::RenderPlanResponse chunk; reader->Read(&chunk);) text += chunk.text();
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpcStatus(status, server);
  return text;
}

absl::Status WriteReportFile(const std::string& path, const std::string& text) {
  RETURN_IF_ERROR(WriteBytes(path, text));
  std::cerr << "wrote " << path << "\n";
  return absl::OkStatus();
}

std::string RatioText(double ratio) {
  return std::isfinite(ratio) ? absl::StrFormat("%.2f x", ratio) : "inf";
}

Table StrategyTable(const v1::Explanation& explanation) {
  Table table({"STRATEGY", "CROSSING", "BUSIEST LINK", "BUSY FOR", "AGAINST PLAN"});
  for (const v1::StrategyCost& row : explanation.strategies()) {
    table.AddRow({row.name(), FormatBytes(row.crossing_bytes()),
                  FormatBytes(row.bottleneck_bytes()), FormatSeconds(row.seconds()),
                  RatioText(row.ratio())});
  }
  return table;
}

std::string StrategyNotes(const v1::Explanation& explanation) {
  std::string text;
  for (const v1::StrategyCost& row : explanation.strategies()) {
    absl::StrAppend(&text, "  ", row.name(), ": ", row.how(), "\n");
  }
  return text;
}

bool IsHost(const v1::DomainTraffic& row) { return row.kind() == v1::DomainTraffic::KIND_HOST; }

Table LevelTable(const v1::Explanation& explanation) {
  Table table(
      {"LEVEL", "BUSY", "BYTES LEAVING", "BUSIEST", "ITS BYTES", "CAPACITY", "SECONDS", ""});
  for (const v1::LevelTraffic& level : explanation.levels()) {
    const v1::DomainTraffic& row = level.busiest();
    const bool in = row.ingress_seconds() >= row.egress_seconds();
    table.AddRow({IsHost(row) ? "hosts" : absl::StrCat("domains, level ", row.level()),
                  absl::StrCat(level.count()), FormatBytes(level.egress_bytes()), row.name(),
                  absl::StrCat(FormatBytes(in ? row.ingress_bytes() : row.egress_bytes()),
                               in ? " in" : " out"),
                  FormatRate(in ? row.ingress_bytes_per_second() : row.egress_bytes_per_second()),
                  FormatSeconds(in ? row.ingress_seconds() : row.egress_seconds()),
                  level.binding() ? "binds" : ""});
  }
  return table;
}

// A table of the busiest hosts, or of the busiest domains.
std::string TrafficText(const v1::Explanation& explanation, bool hosts) {
  Table table(
      {hosts ? "HOST" : "DOMAIN", "IN", "CAPACITY", "SECONDS", "OUT", "CAPACITY", "SECONDS", ""});
  int rows = 0;
  for (const v1::DomainTraffic& row : explanation.domains()) {
    if (IsHost(row) != hosts || ++rows > kDomainsShown) continue;
    table.AddRow({row.name(), FormatBytes(row.ingress_bytes()),
                  FormatRate(row.ingress_bytes_per_second()), FormatSeconds(row.ingress_seconds()),
                  FormatBytes(row.egress_bytes()), FormatRate(row.egress_bytes_per_second()),
                  FormatSeconds(row.egress_seconds()), row.binding() ? "binds" : ""});
  }
  if (rows == 0) return "";
  std::string text = "\n" + table.ToString();
  if (rows > kDomainsShown) absl::StrAppend(&text, "and ", rows - kDomainsShown, " less busy\n");
  return text;
}

}  // namespace

void AddPlanReportFlags(CLI::App& app, PlanReport& report) {
  app.add_flag("--explain", report.explain,
               "What binds, bytes per host and domain, what other strategies would cost");
  app.add_option("--trace", report.trace,
                 "Write the predicted schedule as a trace for Perfetto or chrome://tracing");
  app.add_option("--html", report.html, "Write a page that shows the plan");
  app.add_option("--checkpoint-rate", report.checkpoint_bytes_per_second,
                 "Rate of one host to and from storage, for comparison: 2e9, 2GB/s")
      ->transform(Rate())
      ->capture_default_str();
}

absl::StatusOr<v1::Explanation> WritePlanReport(const PlanReport& report,
                                                const planner::CanonicalizedRequest& canonicalized,
                                                const planner::Plan& plan) {
  const auto& [request, binding] = canonicalized;
  if (!report.trace.empty()) {
    RETURN_IF_ERROR(WriteReportFile(report.trace, planner::ChromeTrace(request, plan, binding)));
  }
  if (!report.needs_explanation()) return v1::Explanation();
  const planner::ExplainOptions options{.checkpoint_bytes_per_second =
                                            report.checkpoint_bytes_per_second};
  ASSIGN_OR_RETURN(const planner::Explanation explanation,
                   planner::Explain(request, plan, binding, options));
  if (!report.html.empty()) {
    RETURN_IF_ERROR(WriteReportFile(
        report.html, planner::HtmlPage(request, plan, binding, explanation, report.label)));
  }
  return proto::ToProto(explanation, plan, binding);
}

absl::StatusOr<v1::Explanation> WritePlanReportOf(const Endpoint& server, const PlanReport& report,
                                                  const std::string& name) {
  const std::unique_ptr<PlanStub> stub = v1::PlanService::NewStub(ConnectServer(server));
  if (!report.trace.empty()) {
    ASSIGN_OR_RETURN(const std::string text,
                     Render(server, *stub, report, name, v1::RenderPlanRequest::TRACE));
    RETURN_IF_ERROR(WriteReportFile(report.trace, text));
  }
  if (!report.html.empty()) {
    ASSIGN_OR_RETURN(const std::string text,
                     Render(server, *stub, report, name, v1::RenderPlanRequest::HTML));
    RETURN_IF_ERROR(WriteReportFile(report.html, text));
  }
  if (!report.explain) return v1::Explanation();
  v1::ExplainPlanRequest request;
  request.set_name(name);
  request.set_checkpoint_bytes_per_second(report.checkpoint_bytes_per_second);
  ASSIGN_OR_RETURN(v1::ExplainPlanResponse response,
                   Call(server, *stub, &PlanStub::ExplainPlan, request));
  return std::move(*response.mutable_explanation());
}

std::string ExplanationText(const v1::Explanation& explanation) {
  std::string text =
      absl::StrCat("\nWhat binds\n  no plan is faster:     ", explanation.certificate());
  if (!explanation.routing_certificate().empty()) {
    absl::StrAppend(&text, "\n  without third hosts:   ", explanation.routing_certificate());
  }
  absl::StrAppend(&text, "\n  busiest in this plan:  ", explanation.bottleneck());
  if (!explanation.schedule().empty()) {
    absl::StrAppend(&text, "\n  but the schedule:      ", explanation.schedule());
  }
  text += "\n";
  if (explanation.domains_size() > 0) {
    absl::StrAppend(&text, "\n", LevelTable(explanation).ToString(),
                    TrafficText(explanation, /*hosts=*/false),
                    TrafficText(explanation, /*hosts=*/true));
  }
  return absl::StrCat(text, "\n", StrategyTable(explanation).ToString(),
                      StrategyNotes(explanation));
}

}  // namespace remesh::client
