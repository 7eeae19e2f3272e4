// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/watch/execution_wait.h"
#include "client/watch/execution_watch.h"
#include "remesh/v1/reshard.grpc.pb.h"

namespace remesh::client {
namespace {

using ReshardStub = v1::ReshardService::Stub;

struct ExecutionsOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string name, parent, phase;
  bool keep_source = false, watch = false;
  double wait_seconds = 0;

  std::unique_ptr<ReshardStub> Connect() const {
    return v1::ReshardService::NewStub(ConnectServer(server));
  }
};

void PrintOne(OutputFormat format, const v1::Execution& execution) {
  Print(format, execution, [&] { return ExecutionDetails(execution); });
}

absl::Status ListExecutions(const ExecutionsOptions& options) {
  v1::ListExecutionsRequest request;
  request.set_parent(options.parent);
  request.set_page_size(1000);
  ASSIGN_OR_RETURN(
      v1::ListExecutionsResponse response,
      CallAllPages(options.server, *options.Connect(), &ReshardStub::ListExecutions, request));
  KeepPhase(options.phase, *response.mutable_executions());
  Print(options.format, response, [&] { return ExecutionRows(response.executions()); });
  return absl::OkStatus();
}

absl::Status WatchExecution(const ExecutionsOptions& options) {
  ASSIGN_OR_RETURN(
      const v1::Execution execution,
      WaitForEnd(options.server, options.name, {.limit_seconds = options.wait_seconds}));
  const absl::Status outcome = Outcome(execution);
  // The error goes to stderr.
  Print(options.format, execution, [&] { return ExecutionDetails(execution, outcome.ok()); });
  return outcome;
}

absl::Status ShowExecution(const ExecutionsOptions& options) {
  if (options.watch) return WatchExecution(options);
  v1::GetExecutionRequest request;
  request.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::Execution execution,
                   Call(options.server, *options.Connect(), &ReshardStub::GetExecution, request));
  PrintOne(options.format, execution);
  return absl::OkStatus();
}

absl::Status Cancel(const ExecutionsOptions& options) {
  v1::CancelExecutionRequest request;
  request.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::Execution execution, Call(options.server, *options.Connect(),
                                                       &ReshardStub::CancelExecution, request));
  if (IsTable(options.format) && !Ended(execution)) {
    std::cerr << "cancelling " << execution.name() << "; its end: remeshctl executions watch "
              << execution.name() << "\n";
  }
  PrintOne(options.format, execution);
  return absl::OkStatus();
}

absl::Status Resolve(const ExecutionsOptions& options) {
  v1::ResolveExecutionRequest request;
  request.set_name(options.name);
  if (options.keep_source) request.set_resolution(v1::ResolveExecutionRequest::KEEP_SOURCE);
  ASSIGN_OR_RETURN(const v1::Execution execution, Call(options.server, *options.Connect(),
                                                       &ReshardStub::ResolveExecution, request));
  PrintOne(options.format, execution);
  return absl::OkStatus();
}

}  // namespace

void AddExecutions(CLI::App& app, Command& command) {
  CLI::App* executions = app.add_subcommand("executions", "Runs of plans against states");
  executions->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help,
                       absl::Status (*run)(const ExecutionsOptions&)) {
    const auto [sub, options] = run == WatchExecution
                                    ? AddWaitVerb(*executions, command, verb, help, run)
                                    : AddVerb(*executions, command, verb, help, run);
    if (run == ListExecutions) {
      AddParentFlag(*sub, options->parent);
      AddPhaseFlag(*sub, v1::Execution::Phase_descriptor(), options->phase);
    } else {
      AddName(*sub, kExecutionNames, options->name);
    }
    if (run == ShowExecution) AddWatchFlag(*sub, options->watch);
    if (run == Resolve) {
      sub->add_flag("--keep-source", options->keep_source,
                    "The generation before stays; what was committed of the new one is freed")
          ->required();
    }
  };
  add("list", "List executions, newest first", ListExecutions);
  add("get", "Show an execution", ShowExecution);
  add("watch",
      "Wait for an execution's end; exit code 0: it SUCCEEDED; 3: the waiting ended first; else 1",
      WatchExecution);
  add("cancel", "Ask an execution to end; its state stays as it was", Cancel);
  add("resolve", "End an execution whose commit a host can no longer complete", Resolve);
}

}  // namespace remesh::client
