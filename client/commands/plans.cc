// SPDX-License-Identifier: Apache-2.0
#include "client/commands/plans.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh {
namespace {

using Stub = v1::PlanService::Stub;

struct Options {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string name;
  bool full = false;

  std::unique_ptr<Stub> Connect() const { return v1::PlanService::NewStub(ConnectServer(server)); }
};

Table Rows(const google::protobuf::RepeatedPtrField<v1::Plan>& plans) {
  Table table({"NAME", "BYTES", "CROSSING", "LB", "QUALITY", "PEAK", "WINDOWS", "HITS", "PINNED",
               "CREATED"});
  for (const v1::Plan& plan : plans) {
    const v1::PlanSummary& s = plan.summary();
    table.AddRow({plan.name(), FormatBytes(s.bytes_total()), FormatBytes(s.bytes_crossing()),
                  FormatSeconds(s.lower_bound_seconds()), absl::StrFormat("%.3f", s.quality()),
                  FormatBytes(s.peak_bytes_max()), absl::StrCat(s.windows()),
                  absl::StrCat(plan.hits()), plan.pinned() ? "yes" : "no",
                  FormatTime(plan.create_time())});
  }
  return table;
}

void PrintOne(OutputFormat format, const v1::Plan& plan) {
  Print(format, plan, [&] {
    v1::ListPlansResponse one;
    *one.add_plans() = plan;
    return Rows(one.plans());
  });
}

Table TransferRows(const v1::Plan& plan) {
  Table table({"WINDOW", "FROM", "TO", "BYTES", "RELAY", "ARRAY", "BOX"});
  for (const v1::Transfer& t : plan.transfers()) {
    std::string box;
    for (int d = 0; d < t.box().lo_size(); ++d) {
      absl::StrAppend(&box, d > 0 ? "," : "", t.box().lo(d), ":", t.box().hi(d));
    }
    table.AddRow({absl::StrCat(t.window()), absl::StrCat(t.from_device()),
                  absl::StrCat(t.to_device()), absl::StrCat(t.bytes()), t.relay() ? "yes" : "no",
                  t.array(), absl::StrCat("[", box, "]")});
  }
  return table;
}

absl::Status List(const Options& options) {
  v1::ListPlansRequest request;
  request.set_page_size(1000);
  ASSIGN_OR_RETURN(const v1::ListPlansResponse response,
                   CallAllPages(options.server, *options.Connect(), &Stub::ListPlans, request));
  Print(options.format, response, [&] { return Rows(response.plans()); });
  return absl::OkStatus();
}

// Plans in full have no limit of size: they come in parts.
absl::StatusOr<v1::Plan> GetWhole(const Options& options, const v1::GetPlanRequest& request) {
  grpc::ClientContext context;
  const std::unique_ptr<Stub> stub = options.Connect();
  const auto reader = stub->StreamPlan(&context, request);
  v1::Plan whole;
  for (v1::Plan part; reader->Read(&part);) whole.MergeFrom(part);
  if (const grpc::Status status = reader->Finish(); !status.ok()) {
    return FromGrpcStatus(status, options.server);
  }
  return whole;
}

absl::Status Get(const Options& options) {
  v1::GetPlanRequest request;
  request.set_name(options.name);
  if (options.full) {
    request.set_view(v1::FULL);
    ASSIGN_OR_RETURN(const v1::Plan plan, GetWhole(options, request));
    Print(options.format, plan, [&] { return TransferRows(plan); });
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   Call(options.server, *options.Connect(), &Stub::GetPlan, request));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

absl::Status Delete(const Options& options) {
  v1::DeletePlanRequest request;
  request.set_name(options.name);
  return Call(options.server, *options.Connect(), &Stub::DeletePlan, request).status();
}

absl::Status Pin(const Options& options) {
  v1::PinPlanRequest request;
  request.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   Call(options.server, *options.Connect(), &Stub::PinPlan, request));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

absl::Status Unpin(const Options& options) {
  v1::UnpinPlanRequest request;
  request.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   Call(options.server, *options.Connect(), &Stub::UnpinPlan, request));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

}  // namespace

void AddPlans(CLI::App& app, Command& command) {
  CLI::App* plans = app.add_subcommand("plans", "Plans in the server's cache");
  plans->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help, absl::Status (*run)(const Options&)) {
    CLI::App* sub = plans->add_subcommand(verb, help);
    auto options = std::make_shared<Options>();
    AddServerFlags(*sub, options->server);
    AddOutputFlag(*sub, options->format);
    if (run != List)
      sub->add_option("NAME", options->name, "plans/{...}")->required();
    if (run == Get) sub->add_flag("--full", options->full, "Every transfer");
    sub->callback([&command, options, run] { command = [options, run] { return run(*options); }; });
  };
  add("list", "List plans, most recently used first", List);
  add("get", "Show a plan; --full lists its transfers", Get);
  add("delete", "Drop a plan from the cache", Delete);
  add("pin", "Keep a plan from eviction", Pin);
  add("unpin", "End a pin", Unpin);
}

}  // namespace remesh
