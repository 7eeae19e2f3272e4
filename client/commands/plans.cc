// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/commands/plan_files.h"
#include "client/commands/plan_filter_flags.h"
#include "client/commands/plan_report.h"
#include "client/commands/plan_watch.h"
#include "client/files/new_file.h"
#include "client/input.h"
#include "client/transfer_output.h"
#include "client/watch/plan_stream.h"
#include "remesh/v1/plan.grpc.pb.h"

namespace remesh::client {
namespace {

using PlanStub = v1::PlanService::Stub;

struct PlansOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string name;
  bool full = false;
  PlanFilterFlags filter;
  PlanWatchFlags watch;
  std::string sort;
  PlanReport report;
  std::string file, spec;
  bool force = false;

  std::unique_ptr<PlanStub> Connect() const {
    return v1::PlanService::NewStub(ConnectServer(server));
  }
};

std::string NameOf(const PlansOptions& options) { return WithPrefix("plans/", options.name); }

Table Rows(const google::protobuf::RepeatedPtrField<v1::Plan>& plans) {
  Table table({"NAME", "DEVICES", "BYTES", "CROSSING", "QUALITY", "TIER", "HITS", "PINNED",
               "CREATED", "USED"},
              {"HOSTS", "ARRAYS", "TAKES", "USED BY"});
  for (const v1::Plan& plan : plans) {
    const v1::PlanSummary& s = plan.summary();
    table.AddRow({plan.name(), absl::StrCat(plan.source_devices(), "->", plan.target_devices()),
                  FormatBytes(s.total_bytes()), FormatBytes(s.crossing_bytes()),
                  absl::StrFormat("%.3f", s.quality()), plan.tier() == v1::DISK ? "disk" : "memory",
                  absl::StrCat(plan.hits()), plan.pinned() ? "yes" : "no",
                  FormatTime(plan.create_time()), FormatTime(plan.last_use_time()),
                  absl::StrCat(plan.source_hosts(), "->", plan.target_hosts()),
                  absl::StrCat(plan.arrays()), FormatBytes(plan.cached_bytes()),
                  OrDash(absl::StrJoin(plan.states(), ","))});
  }
  return table;
}

Table Details(const v1::Plan& plan) {
  const v1::PlanSummary& s = plan.summary();
  Table table({"PLAN", plan.name()});
  table.AddRow(
      {"devices", absl::StrCat(plan.source_devices(), " on ", plan.source_hosts(), " hosts -> ",
                               plan.target_devices(), " on ", plan.target_hosts())});
  table.AddRow({"arrays", absl::StrCat(plan.arrays())});
  table.AddRow({"total", FormatBytes(s.total_bytes())});
  table.AddRow({"crossing", FormatBytes(s.crossing_bytes())});
  table.AddRow({"lower bound", FormatSeconds(s.lower_bound_seconds())});
  table.AddRow({"quality", absl::StrFormat("%.3f", s.quality())});
  table.AddRow({"predicted", FormatSeconds(s.predicted_seconds())});
  AddAssumed(plan.hosts_assumed(), table);
  table.AddRow({"peak per device", FormatBytes(s.max_peak_bytes())});
  table.AddRow({"windows", absl::StrCat(s.windows())});
  table.AddRow({"planned in", FormatSeconds(plan.compute_seconds())});
  table.AddRow({"tier", plan.tier() == v1::DISK ? "disk" : "memory"});
  table.AddRow({"takes", FormatBytes(plan.cached_bytes())});
  table.AddRow({"hits", absl::StrCat(plan.hits())});
  table.AddRow({"pinned", plan.pinned() ? "yes" : "no"});
  table.AddRow({"in use", absl::StrCat(plan.uses())});
  table.AddRow({"created", FormatTime(plan.create_time())});
  table.AddRow({"last used", FormatTime(plan.last_use_time())});
  for (const std::string& state : plan.states()) table.AddRow({"used by", state});
  return table;
}

void PrintOne(OutputFormat format, const v1::Plan& plan) {
  Print(format, plan, [&] { return Details(plan); });
}

// Sorts the plans; the server lists them newest first only.
void Sort(const std::string& by, google::protobuf::RepeatedPtrField<v1::Plan>& plans) {
  const auto key = [&](const v1::Plan& plan) {
    if (by == "hits") return std::make_pair(plan.hits(), int64_t{0});
    if (by == "bytes") return std::make_pair(plan.cached_bytes(), int64_t{0});
    const auto& time = by == "used" ? plan.last_use_time() : plan.create_time();
    return std::make_pair(time.seconds(), int64_t{time.nanos()});
  };
  std::stable_sort(plans.pointer_begin(), plans.pointer_end(),
                   [&](const v1::Plan* a, const v1::Plan* b) { return key(*a) > key(*b); });
}

absl::Status ListPlans(const PlansOptions& options) {
  v1::ListPlansRequest request;
  request.set_page_size(1000);
  request.set_view(v1::SUMMARY);
  ASSIGN_OR_RETURN(*request.mutable_filter(), ToFilter(options.filter, absl::Now()));
  absl::StatusOr<v1::ListPlansResponse> response =
      CallAllPages(options.server, *options.Connect(), &PlanStub::ListPlans, request);
  RETURN_IF_ERROR(AtFilterFlag(response.status()));
  if (!options.sort.empty()) Sort(options.sort, *response->mutable_plans());
  Print(options.format, *response, [&] { return Rows(response->plans()); });
  return absl::OkStatus();
}

absl::Status Watch(const PlansOptions& options) {
  return WatchPlans(options.server, options.format, options.watch);
}

absl::Status GetInFull(const PlansOptions& options) {
  RETURN_IF_ERROR(CheckFormatOfTransfers(options.format));
  ASSIGN_OR_RETURN(const std::unique_ptr<PlanStream> stream,
                   PlanStream::Open(options.server, NameOf(options)));
  const auto for_each = [&](absl::FunctionRef<void(const v1::Transfer&)> visit) {
    return stream->ForEachTransfer(visit);
  };
  if (options.format == OutputFormat::kJson)
    return PrintJsonWithTransfers(stream->head(), for_each);
  return PrintTransferTable(for_each);
}

// Writes the plan's report. Its title is a state that uses the plan.
absl::Status WriteReport(const PlansOptions& options, const v1::GetPlanRequest& request) {
  PlanReport report = options.report;
  if (!report.html.empty()) {
    ASSIGN_OR_RETURN(const v1::Plan plan,
                     Call(options.server, *options.Connect(), &PlanStub::GetPlan, request));
    if (plan.states_size() > 0) report.label = plan.states(0);
  }
  return WritePlanReportOf(options.server, report, NameOf(options)).status();
}

absl::Status Get(const PlansOptions& options) {
  v1::GetPlanRequest request;
  request.set_name(NameOf(options));
  RETURN_IF_ERROR(WriteReport(options, request));
  if (options.full) return GetInFull(options);
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   Call(options.server, *options.Connect(), &PlanStub::GetPlan, request));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

absl::Status Delete(const PlansOptions& options) {
  v1::DeletePlanRequest request;
  request.set_name(NameOf(options));
  return Call(options.server, *options.Connect(), &PlanStub::DeletePlan, request).status();
}

absl::Status Pin(const PlansOptions& options) {
  v1::PinPlanRequest request;
  request.set_name(NameOf(options));
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   Call(options.server, *options.Connect(), &PlanStub::PinPlan, request));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

absl::Status Unpin(const PlansOptions& options) {
  v1::UnpinPlanRequest request;
  request.set_name(NameOf(options));
  ASSIGN_OR_RETURN(const v1::Plan plan,
                   Call(options.server, *options.Connect(), &PlanStub::UnpinPlan, request));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

absl::Status ExplainOne(const PlansOptions& options) {
  v1::ExplainPlanRequest request;
  request.set_name(NameOf(options));
  request.set_checkpoint_bytes_per_second(options.report.checkpoint_bytes_per_second);
  ASSIGN_OR_RETURN(const v1::ExplainPlanResponse response,
                   Call(options.server, *options.Connect(), &PlanStub::ExplainPlan, request));
  Print(options.format, response, [&] { return Details(response.plan()); });
  if (IsTable(options.format)) {
    std::cout << ExplanationText(response.explanation()) << std::flush;
  }
  return absl::OkStatus();
}

absl::Status ExportToStdout(const PlansOptions& options) {
  ASSIGN_OR_RETURN(const std::string bytes, DownloadPlan(options.server, NameOf(options)));
  std::cout << bytes;
  return absl::OkStatus();
}

absl::Status Export(const PlansOptions& options) {
  if (options.file == "-") return ExportToStdout(options);
  using Existing = NewFile::Existing;
  ASSIGN_OR_RETURN(NewFile file, NewFile::Open(options.file, options.force ? Existing::kReplace
                                                                           : Existing::kKeep));
  ASSIGN_OR_RETURN(const std::string bytes, DownloadPlan(options.server, NameOf(options)));
  RETURN_IF_ERROR(file.Write(bytes));
  RETURN_IF_ERROR(file.Commit());
  std::cerr << "wrote " << options.file << "\n";
  return absl::OkStatus();
}

absl::Status Import(const PlansOptions& options) {
  v1::PlanSpec spec;
  if (!options.spec.empty()) RETURN_IF_ERROR(ReadMessage(options.spec, spec));
  ASSIGN_OR_RETURN(const v1::Plan plan, UploadPlan(options.server, options.file,
                                                   options.spec.empty() ? nullptr : &spec));
  PrintOne(options.format, plan);
  return absl::OkStatus();
}

}  // namespace

void AddPlans(CLI::App& app, Command& command) {
  CLI::App* plans = app.add_subcommand("plans", "Plans in the server's cache");
  plans->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help,
                       absl::Status (*run)(const PlansOptions&)) {
    const auto [sub, options] = AddVerb(*plans, command, verb, help, run);
    if (run == ListPlans) AddPlanFilterFlags(*sub, options->filter);
    if (run == Watch) AddPlanWatchFlags(*sub, options->watch);
    if (run != ListPlans && run != Watch && run != Import) AddName(*sub, kPlanNames, options->name);
    return std::make_pair(sub, options);
  };
  const auto [list, listed] = add("list", "List plans, the newest first", ListPlans);
  list->add_option("--sort", listed->sort, "created, used, hits or bytes; the most first")
      ->transform(OneOf({"created", "used", "hits", "bytes"}));
  const auto [get, got] = add("get", "Show a plan; --full lists its transfers", Get);
  AddFullFlags(*get, got->full);
  get->add_option("--html", got->report.html, "Write a page that shows the plan");
  get->add_option("--trace", got->report.trace,
                  "Write the predicted schedule as a trace for Perfetto or chrome://tracing");
  const auto [explain, explained] =
      add("explain", "Say why a plan costs what it costs", ExplainOne);
  explain
      ->add_option("--checkpoint-rate", explained->report.checkpoint_bytes_per_second,
                   "Rate of one host to and from storage, for comparison: 2e9, 2GB/s")
      ->transform(Rate())
      ->capture_default_str();
  add("delete", "Drop a plan from the cache", Delete);
  add("pin", "Keep a plan from eviction", Pin);
  add("unpin", "End a pin", Unpin);
  add("watch", "Print the plans that exist, then those that are new, changed or gone", Watch);
  const auto [to, exported] = add("export", "Write a plan to a file", Export);
  to->add_option("FILE", exported->file, "File to write; - is stdout")
      ->required()
      ->check(FilePath());
  to->add_flag("--force", exported->force, "Replace a file that is there");
  const auto [from, imported] = add("import", "Import a plan that export wrote", Import);
  from->add_option("FILE", imported->file, "File to read; - is stdin")->required();
  from->add_option("-f,--spec", imported->spec,
                   "PlanSpec that the plan is to answer, of the same structure: JSON or YAML");
  AddPrecompute(*plans, command);
}

}  // namespace remesh::client
