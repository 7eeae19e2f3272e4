// SPDX-License-Identifier: Apache-2.0
#include "client/watch/execution_watch.h"

#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "client/watch/outage.h"
#include "client/watch/progress.h"
#include "google/protobuf/util/time_util.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::client {
namespace {

using google::protobuf::util::TimeUtil;

std::string Phase(const v1::Execution& execution) {
  return v1::Execution::Phase_Name(execution.phase());
}

double Seconds(const google::protobuf::Timestamp& from, const google::protobuf::Timestamp& to) {
  return static_cast<double>(TimeUtil::DurationToNanoseconds(to - from)) / 1e9;
}

constexpr double kFarOff = 3;  // times the predicted seconds

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

std::string Share(int64_t part, int64_t whole) {
  return absl::StrFormat("%s (%.1f %%)", FormatBytes(part), whole > 0 ? 100.0 * part / whole : 0.0);
}

void AddCosts(const v1::PlanSummary& summary, Table& table) {
  const int64_t total = summary.total_bytes();
  table.AddRow({"bytes", FormatBytes(total)});
  table.AddRow({"  kept", Share(summary.kept_bytes(), total)});
  table.AddRow({"  local", Share(summary.local_bytes(), total)});
  table.AddRow({"  crossing", Share(summary.crossing_bytes(), total)});
  table.AddRow({"bottleneck", FormatSeconds(summary.bottleneck_seconds())});
  table.AddRow({"lower bound", absl::StrCat(FormatSeconds(summary.lower_bound_seconds()), "  ",
                                            summary.certificate())});
  table.AddRow({"quality", absl::StrFormat("%.3f", summary.quality())});
  table.AddRow({"predicted", FormatSeconds(summary.predicted_seconds())});
  table.AddRow({"peak memory", FormatBytes(summary.max_peak_bytes())});
  table.AddRow({"windows", absl::StrCat(summary.windows())});
  table.AddRow({"messages", absl::StrCat(summary.messages())});
}

absl::Status WaitEnded(double limit_seconds) {
  const std::string seconds = absl::StrCat(limit_seconds);
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat(seconds, " s have passed (--timeout)"),
                   {.reason = "WAIT_ENDED", .metadata = {{"limit_seconds", seconds}}});
}

// Adds how far the execution is, and whom it waits for.
void AddProgress(const v1::Execution& e, Table& table) {
  if (Ended(e) || e.phase() == v1::Execution::PHASE_UNSPECIFIED) return;
  table.AddRow({"done", absl::StrFormat("%.0f %%", 100 * DoneShare(e))});
  if (const std::string behind = BehindOf(e); !behind.empty()) table.AddRow({"behind", behind});
}

// Adds what the transfer took, and how that compares with the prediction.
void AddTransfer(const v1::Execution& e, Table& table) {
  if (!e.has_transfer_start_time() || !e.has_transfer_end_time()) return;
  const double seconds = Seconds(e.transfer_start_time(), e.transfer_end_time());
  const auto rate = e.summary().total_bytes() / std::max(seconds, 1e-9);
  table.AddRow({"transfer", absl::StrCat(FormatSeconds(seconds), ", ", FormatRate(rate))});
  const double predicted = e.predicted_seconds();
  if (e.phase() != v1::Execution::SUCCEEDED || predicted <= 0) return;
  const double ratio = seconds / predicted;
  table.AddRow({"", absl::StrFormat("predicted %s, took %s, %.*f x", FormatSeconds(predicted),
                                    FormatSeconds(seconds), ratio < 10 ? 1 : 0, ratio)});
  if (ratio <= kFarOff) return;
  table.AddRow({"hint",
                "far slower than predicted: compare the capacities in remeshctl topology "
                "get with the network's; the workers' settings preset and "
                "nic_bytes_per_second correct them"});
}

}  // namespace

bool Ended(const v1::Execution& execution) {
  return execution.phase() == v1::Execution::SUCCEEDED ||
         execution.phase() == v1::Execution::FAILED ||
         execution.phase() == v1::Execution::CANCELLED;
}

bool MovesNothing(const v1::Execution& execution) {
  return execution.target_generation() == execution.source_generation();
}

absl::StatusOr<v1::Execution> WatchToEnd(const Endpoint& server, const std::string& name,
                                         absl::FunctionRef<void(const v1::Execution&)> on_change,
                                         double limit_seconds) {
  const std::shared_ptr<grpc::Channel> channel = ConnectServer(server);
  const auto stub = v1::ReshardService::NewStub(channel);
  v1::WatchExecutionRequest request;
  request.set_name(name);
  const bool limited = limit_seconds > 0;
  const auto limit = std::chrono::system_clock::now() + Nanoseconds(limit_seconds);
  Outage outage(server);
  while (true) {
    grpc::ClientContext context;
    if (limited) context.set_deadline(limit);
    const auto reader = stub->WatchExecution(&context, request);
    for (v1::Execution execution; reader->Read(&execution);) {
      outage.End();
      on_change(execution);
      if (Ended(execution)) return execution;
    }
    const grpc::Status status = reader->Finish();
    if (limited && std::chrono::system_clock::now() >= limit) return WaitEnded(limit_seconds);
    if (!outage.Bears(status)) return FromGrpcStatus(status, server);
    AwaitConnection(*channel);
  }
}

absl::Status Outcome(const v1::Execution& execution) {
  if (execution.phase() != v1::Execution::FAILED && execution.phase() != v1::Execution::CANCELLED) {
    return absl::OkStatus();
  }
  absl::Status error = service::StatusFromProto(execution.error());
  if (error.ok()) error = absl::CancelledError("no reason was given");
  const ErrorInfo info = GetErrorInfo(error);
  return MakeError(error.code(),
                   absl::StrCat(execution.name(), " ", Phase(execution), ": ", error.message()),
                   info);
}

Table ExecutionRows(const google::protobuf::RepeatedPtrField<v1::Execution>& executions) {
  Table table({"NAME", "STATE", "GENERATION", "PHASE", "DONE", "BYTES", "PLAN", "CREATED"},
              {"ENDED", "REQUEST ID", "ERROR"});
  for (const v1::Execution& e : executions) {
    table.AddRow(
        {e.name(), e.state(), absl::StrCat(e.source_generation(), "->", e.target_generation()),
         Phase(e), absl::StrFormat("%.0f%%", 100 * DoneShare(e)),
         FormatBytes(e.summary().total_bytes()), OrDash(e.plan()), FormatTime(e.create_time()),
         FormatTime(e.end_time()), OrDash(e.request_id()), OrDash(e.error().message())});
  }
  return table;
}

Table ExecutionDetails(const v1::Execution& e, bool with_error) {
  Table table({"execution", OrDash(e.name())});
  table.AddRow({"state", e.state()});
  table.AddRow({"generation", absl::StrCat(e.source_generation(), " -> ", e.target_generation())});
  // An execution that was only validated has no phase.
  table.AddRow({"phase", e.phase() == v1::Execution::PHASE_UNSPECIFIED ? "-" : Phase(e)});
  table.AddRow({"plan", OrDash(e.plan())});
  AddTargetOrders(e.target_device_lists(), table);
  AddProgress(e, table);
  if (MovesNothing(e)) table.AddRow({"moves", "nothing: the state has this layout already"});
  AddCosts(e.summary(), table);
  AddAssumed(e.planning().hosts_assumed(), table);
  AddTransfer(e, table);
  if (e.has_end_time())
    table.AddRow({"in all", FormatSeconds(Seconds(e.create_time(), e.end_time()))});
  if (const absl::Status outcome = Outcome(e); with_error && !outcome.ok()) {
    table.AddRow({"error", absl::StrCat(GetErrorInfo(outcome).reason, ": ", e.error().message())});
  }
  return table;
}

}  // namespace remesh::client
