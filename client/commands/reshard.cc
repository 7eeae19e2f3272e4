// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/input.h"
#include "client/watch/execution_wait.h"
#include "client/watch/execution_watch.h"
#include "google/protobuf/util/time_util.h"
#include "remesh/v1/reshard.grpc.pb.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {
namespace {

using Strategy = v1::PlanOptions::Strategy;

struct ReshardOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string state, targets, plan, request_id;
  int64_t generation = 0, window_bytes = 0, memory_limit_bytes = 0;
  double deadline_seconds = 0, wait_seconds = 0;
  bool free_target_order = false, no_wait = false, validate_only = false;
  bool lose_absent_hosts = false;
  std::vector<int64_t> lost_devices;
  Strategy strategy = v1::PlanOptions::STRATEGY_UNSPECIFIED;
};

// The generation from which the execution with this request id started; 0 if there is none. A
// request id belongs to the state that `state` is, not to a later one of the same name.
absl::StatusOr<int64_t> GenerationOfRequestId(const ReshardOptions& options,
                                              const v1::State& state) {
  const auto stub = v1::ReshardService::NewStub(ConnectServer(options.server));
  v1::ListExecutionsRequest request;
  request.set_parent(state.name().substr(0, state.name().find("/states/")));
  request.set_page_size(1000);
  ASSIGN_OR_RETURN(
      const v1::ListExecutionsResponse all,
      CallAllPages(options.server, *stub, &v1::ReshardService::Stub::ListExecutions, request));
  for (const v1::Execution& execution : all.executions()) {
    if (execution.request_id() == options.request_id && execution.state() == state.name() &&
        execution.state_uid() == state.uid())
      return execution.source_generation();
  }
  return 0;
}

// Without --generation the latest, but for a repeated command the one from which it started before:
// the request must be the same, or the server refuses its id. The state is read first: if the
// execution starts between the two calls, this generation is the one from which it starts.
absl::StatusOr<int64_t> Generation(const ReshardOptions& options) {
  if (options.generation > 0) return options.generation;
  const auto stub = v1::StateService::NewStub(ConnectServer(options.server));
  v1::GetStateRequest request;
  request.set_name(options.state);
  ASSIGN_OR_RETURN(const v1::State state,
                   Call(options.server, *stub, &v1::StateService::Stub::GetState, request));
  if (options.request_id.empty()) return state.generation();
  ASSIGN_OR_RETURN(const int64_t before, GenerationOfRequestId(options, state));
  return before > 0 ? before : state.generation();
}

absl::StatusOr<v1::StartExecutionRequest> ToRequest(const ReshardOptions& options) {
  v1::StartExecutionRequest request;
  request.set_state(options.state);
  request.set_request_id(options.request_id);
  request.set_validate_only(options.validate_only);
  request.set_lose_absent_hosts(options.lose_absent_hosts);
  if (options.deadline_seconds > 0) {
    *request.mutable_deadline() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        std::llround(options.deadline_seconds * 1e9));
  }
  if (!options.plan.empty()) {
    request.set_plan(options.plan);
  } else {
    RETURN_IF_ERROR(ReadMessage(options.targets, *request.mutable_targets()));
    v1::PlanOptions& planning = *request.mutable_options();
    planning.set_window_bytes(options.window_bytes);
    planning.set_memory_limit_bytes(options.memory_limit_bytes);
    planning.set_free_target_order(options.free_target_order);
    planning.set_strategy(options.strategy);
    for (const int64_t id : options.lost_devices) planning.add_lost_device_ids(id);
  }
  ASSIGN_OR_RETURN(const int64_t generation, Generation(options));
  request.set_expected_generation(generation);
  return request;
}

// Adds the name of the targets' file to a refusal of the targets.
absl::Status Refusal(const ReshardOptions& options, const absl::Status& status) {
  const bool of_targets = absl::StartsWith(GetErrorInfo(status).metadata["field"], "targets");
  return of_targets ? AtFile(options.targets, status) : status;
}

absl::Status Reshard(const ReshardOptions& options) {
  ASSIGN_OR_RETURN(const v1::StartExecutionRequest request, ToRequest(options));
  const auto stub = v1::ReshardService::NewStub(ConnectServer(options.server));
  absl::StatusOr<v1::Execution> started =
      Call(options.server, *stub, &v1::ReshardService::Stub::StartExecution, request);
  RETURN_IF_ERROR(Refusal(options, started.status()));
  v1::Execution execution = *std::move(started);
  if (!options.no_wait && !options.validate_only && !Ended(execution)) {
    // Whatever ends the wait, the user knows what to look for.
    const WaitOptions wait = {.exists = true,
                              .prints_name = IsTable(options.format),
                              .limit_seconds = options.wait_seconds};
    ASSIGN_OR_RETURN(execution, WaitForEnd(options.server, execution.name(), wait));
  }
  // A validated execution has no name, but its plan has.
  if (options.format == OutputFormat::kName && options.validate_only) {
    std::cout << execution.plan() << "\n";
    return absl::OkStatus();
  }
  const absl::Status outcome = Outcome(execution);
  // The error goes to stderr.
  Print(options.format, execution, [&] { return ExecutionDetails(execution, outcome.ok()); });
  return outcome;
}

void AddPlanningFlags(CLI::App& reshard, ReshardOptions& options) {
  reshard
      .add_option("--window-bytes", options.window_bytes,
                  "Bytes in flight per device, at least 256 (256MiB without it)")
      ->transform(Bytes());
  reshard
      .add_option("--memory-limit-bytes", options.memory_limit_bytes,
                  "Most bytes that a device may hold, as in 40GiB")
      ->transform(Bytes());
  reshard.add_flag("--free-target-order", options.free_target_order,
                   "The planner may permute the target devices");
  reshard
      .add_option("--lost-devices", options.lost_devices,
                  "Devices whose shards are gone: 4,5; their hosts may be away")
      ->delimiter(',')
      ->transform(WholeNumber(0));
  reshard.add_flag("--lose-absent-hosts", options.lose_absent_hosts,
                   "Do without the hosts that the server calls lost, as if --lost-devices named "
                   "their devices");
  const auto set_strategy = [&options](const std::string& text) {
    options.strategy = text == "p2p"      ? v1::PlanOptions::P2P
                       : text == "gather" ? v1::PlanOptions::GATHER
                                          : v1::PlanOptions::OPTIMAL;
  };
  reshard
      .add_option_function<std::string>("--strategy", set_strategy,
                                        "How to route (default optimal)")
      ->transform(OneOf({"optimal", "p2p", "gather"}));
}

}  // namespace

void AddReshard(CLI::App& app, Command& command) {
  CLI::App* reshard =
      app.add_subcommand("reshard", "Move a state to other shardings, and wait for the end");
  reshard->footer(
      "Exit code 0: it SUCCEEDED; 1: refused, FAILED or CANCELLED, and the state is as it was;\n"
      "3: outcome unknown, the waiting ended first: see remeshctl executions get.\n"
      "Ctrl-C ends the waiting only; remeshctl executions cancel ends the move.");
  auto options = std::make_shared<ReshardOptions>();
  AddWaitTimeoutFlags(*reshard, options->server, options->wait_seconds);
  AddOutputFlag(*reshard, options->format);
  AddName(*reshard, kStateNames, options->state, "STATE");
  CLI::Option_group* how = reshard->add_option_group("how", "Where to");
  how->add_option("-f,--targets", options->targets,
                  "remesh.v1.Targets as JSON or YAML; - is stdin");
  how->add_option("--plan", options->plan, "plans/{...} from the state's layout");
  how->require_option(1);
  reshard
      ->add_option("--generation", options->generation,
                   "Generation to start from; without it the latest, or that of the move which "
                   "--request-id started")
      ->transform(WholeNumber());
  reshard
      ->add_option("--deadline", options->deadline_seconds,
                   "Longest that the move may take: 90s, 5m (300 s without it)")
      ->transform(NanosecondsOrMore());
  reshard->add_option("--request-id", options->request_id,
                      "The same id never starts a second move");
  AddPlanningFlags(*reshard, *options);
  reshard->add_flag("--no-wait", options->no_wait, "Start it and return");
  reshard->add_flag("--validate-only", options->validate_only,
                    "Plan and check, move nothing; the plan is kept, for --plan and plans get");
  reshard->callback([&command, options] { command = [options] { return Reshard(*options); }; });
}

}  // namespace remesh::client
