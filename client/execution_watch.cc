// SPDX-License-Identifier: Apache-2.0
#include "client/execution_watch.h"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "client/progress.h"
#include "google/protobuf/util/time_util.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "service/rpc/error_info.h"

namespace remesh::client {
namespace {

using google::protobuf::util::TimeUtil;
using Clock = std::chrono::steady_clock;

constexpr auto kRetryInterval = std::chrono::milliseconds(500);

std::string Phase(const v1::Execution& execution) {
  return v1::Execution::Phase_Name(execution.phase());
}

double Seconds(const google::protobuf::Timestamp& from, const google::protobuf::Timestamp& to) {
  return static_cast<double>(TimeUtil::DurationToNanoseconds(to - from)) / 1e9;
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

// Waits before the next try, and lets the channel connect meanwhile: gRPC's connections make
// progress only while a thread waits in it, otherwise every 5 s.
void AwaitConnection(grpc::Channel& channel) {
  const Clock::time_point next_try = Clock::now() + kRetryInterval;
  channel.WaitForConnected(std::chrono::system_clock::now() + kRetryInterval);
  std::this_thread::sleep_until(next_try);
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
                                         absl::FunctionRef<void(const v1::Execution&)> on_change) {
  const std::shared_ptr<grpc::Channel> channel = ConnectServer(server);
  const auto stub = v1::ReshardService::NewStub(channel);
  v1::WatchExecutionRequest request;
  request.set_name(name);
  std::optional<Clock::time_point> gone_since;
  while (true) {
    grpc::ClientContext context;
    const auto reader = stub->WatchExecution(&context, request);
    for (v1::Execution execution; reader->Read(&execution);) {
      gone_since.reset();
      on_change(execution);
      if (Ended(execution)) return execution;
    }
    const grpc::Status status = reader->Finish();
    // A move may be silent for long: what counts is how long the server has been away.
    if (!gone_since.has_value()) gone_since = Clock::now();
    const bool patient =
        Clock::now() - *gone_since < std::chrono::duration<double>(server.timeout_seconds);
    if (!status.ok() && (status.error_code() != grpc::StatusCode::UNAVAILABLE || !patient)) {
      return FromGrpcStatus(status, server);
    }
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
  AddCosts(e.summary(), table);
  if (e.has_transfer_start_time() && e.has_transfer_end_time()) {
    const double seconds = Seconds(e.transfer_start_time(), e.transfer_end_time());
    table.AddRow(
        {"transfer", absl::StrFormat("%s, %s/s", FormatSeconds(seconds),
                                     FormatBytes(static_cast<int64_t>(e.summary().total_bytes() /
                                                                      std::max(seconds, 1e-9))))});
  }
  if (e.has_end_time())
    table.AddRow({"in all", FormatSeconds(Seconds(e.create_time(), e.end_time()))});
  if (const absl::Status outcome = Outcome(e); with_error && !outcome.ok()) {
    table.AddRow({"error", absl::StrCat(GetErrorInfo(outcome).reason, ": ", e.error().message())});
  }
  return table;
}

}  // namespace remesh::client
