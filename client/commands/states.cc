// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/resource_names.h"
#include "client/commands/commands.h"
#include "client/delete_state.h"
#include "client/input.h"
#include "client/watch/execution_watch.h"
#include "client/watch/progress.h"
#include "client/watch/state_watch.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {
namespace {

using StateStub = v1::StateService::Stub;

struct StatesOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string name, parent, file, phase, uid;
  bool validate_only = false, write_once = false, wait = true, watch = false;
  std::optional<int64_t> step;
  std::vector<std::string> labels;  // KEY=VALUE

  std::unique_ptr<StateStub> Connect() const {
    return v1::StateService::NewStub(ConnectServer(server));
  }
};

std::string Phase(const v1::State& state) { return v1::State::Phase_Name(state.phase()); }

std::string LabelsOf(const v1::State& state) {
  const std::map<std::string, std::string> sorted(state.labels().begin(), state.labels().end());
  return absl::StrJoin(sorted, ",", absl::PairFormatter("="));
}

// The hosts because of which the state is LOST or DEGRADED: those that are away or came back
// without their shards, and those that hold a newer generation than the journal knows.
std::string LostHosts(const v1::State& state) {
  std::vector<std::string> hosts(state.lost_hosts().begin(), state.lost_hosts().end());
  for (const std::string& host : state.newer_hosts()) hosts.push_back(host + "(newer)");
  return absl::StrJoin(hosts, ",");
}

// The first hosts that have not sealed their shards.
std::string UnsealedHosts(const v1::State& state) {
  constexpr int kNamed = 3;
  const auto& hosts = state.unsealed_hosts();
  if (hosts.size() <= kNamed) return absl::StrJoin(hosts, ",");
  return absl::StrCat(absl::StrJoin(hosts.begin(), hosts.begin() + kNamed, ","), " and ",
                      hosts.size() - kNamed, " more");
}

// The write that all hosts name, or that of each host if they differ.
std::string WriteOf(const v1::State& state) {
  if (state.host_writes().empty()) return state.write();
  return absl::StrJoin(state.host_writes(), ", ", [](std::string* out, const v1::HostWrite& one) {
    absl::StrAppend(out, one.write().empty() ? "none" : one.write(), " on ", one.host());
  });
}

// Whether all that a state of one write waits for is the server's journal.
bool AwaitsCommit(const v1::State& state) {
  return state.write_once() && state.phase() == v1::State::BUILDING && state.total_shards() > 0 &&
         state.sealed_shards() == state.total_shards();
}

std::string OnceOf(const v1::State& state) {
  if (!state.write_once()) return "";
  return AwaitsCommit(state) ? "yes, not committed" : "yes";
}

// " (40 %)" while shards are missing.
std::string SealedShare(const v1::State& state) {
  const int64_t sealed = state.sealed_shards(), total = state.total_shards();
  return sealed < total ? absl::StrCat(" (", 100 * sealed / total, " %)") : "";
}

std::string LineOf(const v1::State& state) {
  const std::string away = LostHosts(state);
  const std::string unsealed = UnsealedHosts(state);
  const std::string write = WriteOf(state);
  const std::string once = OnceOf(state);
  return absl::StrCat(
      state.name(), "  generation ", state.generation(), "  ", Phase(state), "  sealed ",
      state.sealed_shards(), "/", state.total_shards(), SealedShare(state),
      away.empty() ? "" : "  lost hosts ", away, unsealed.empty() ? "" : "  not sealed on ",
      unsealed, write.empty() ? "" : "  write ", write, once.empty() ? "" : "  write once ", once);
}

Table Rows(const google::protobuf::RepeatedPtrField<v1::State>& states) {
  Table table({"NAME", "GENERATION", "PHASE", "BYTES", "SEALED", "STEP", "EXECUTION", "LOST HOSTS",
               "NOT SEALED ON", "WRITE"},
              {"ARRAYS", "WRITE ONCE", "CREATED", "UID", "LABELS"});
  for (const v1::State& state : states) {
    table.AddRow({state.name(), absl::StrCat(state.generation()), Phase(state),
                  FormatBytes(state.total_bytes()),
                  absl::StrCat(state.sealed_shards(), "/", state.total_shards()),
                  absl::StrCat(state.step()), OrDash(state.execution()), OrDash(LostHosts(state)),
                  OrDash(UnsealedHosts(state)), OrDash(WriteOf(state)),
                  absl::StrCat(state.spec().arrays_size()), OrDash(OnceOf(state)),
                  FormatTime(state.create_time()), OrDash(state.uid()), OrDash(LabelsOf(state))});
  }
  return table;
}

void PrintOne(OutputFormat format, const v1::State& state) {
  Print(format, state, [&] {
    v1::ListStatesResponse one;
    *one.add_states() = state;
    return Rows(one.states());
  });
}

// Whether the output shows nothing of the specs, which may be large.
bool ShowsNoSpec(OutputFormat format) {
  return format == OutputFormat::kTable || format == OutputFormat::kName;
}

absl::Status ListStates(const StatesOptions& options) {
  v1::ListStatesRequest request;
  request.set_parent(options.parent);
  request.set_page_size(1000);
  if (ShowsNoSpec(options.format)) request.set_view(v1::ListStatesRequest::BASIC);
  ASSIGN_OR_RETURN(v1::ListStatesResponse response, CallAllPages(options.server, *options.Connect(),
                                                                 &StateStub::ListStates, request));
  KeepPhase(options.phase, *response.mutable_states());
  Print(options.format, response, [&] { return Rows(response.states()); });
  return absl::OkStatus();
}

// Prints how a move of the state goes on: a line for each phase and each further tenth.
void FollowMove(const StatesOptions& options, const v1::State& state) {
  std::string last;
  const auto print = [&](const v1::Execution& move) {
    const int tenths = static_cast<int>(10 * DoneShare(move));
    const std::string step = absl::StrCat(move.phase(), " ", tenths);
    if (std::exchange(last, step) == step) return;
    std::cout << absl::StrCat(FormatNow(), "  ", state.name(), "  MOVING  ", ProgressLine(move),
                              "\n")
              << std::flush;
  };
  // How the move ends is what the state says next.
  WatchToEnd(options.server, state.execution(), print).IgnoreError();
}

// Prints one line of JSON, or one row, for each change.
absl::Status Watch(const StatesOptions& options) {
  return WatchState(options.server, options.name, [&](const v1::State& state) {
    PrintNext(options.format, state, absl::StrCat(FormatNow(), "  ", LineOf(state)));
    const bool moves = state.phase() == v1::State::MOVING && !state.execution().empty();
    if (moves && IsTable(options.format)) FollowMove(options, state);
    return CheckStdout();
  });
}

absl::Status Get(const StatesOptions& options) {
  if (options.watch) return Watch(options);
  v1::GetStateRequest request;
  request.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::State state,
                   Call(options.server, *options.Connect(), &StateStub::GetState, request));
  PrintOne(options.format, state);
  return absl::OkStatus();
}

absl::Status Create(const StatesOptions& options) {
  v1::CreateStateRequest request;
  request.set_validate_only(options.validate_only);
  RETURN_IF_ERROR(ReadMessage(options.file, *request.mutable_state()));
  if (!options.name.empty()) {
    RETURN_IF_ERROR(ParseStateName("NAME", options.name).status());
    request.mutable_state()->set_name(options.name);
  }
  if (options.write_once) request.mutable_state()->set_write_once(true);
  const absl::StatusOr<v1::State> state =
      Call(options.server, *options.Connect(), &StateStub::CreateState, request);
  RETURN_IF_ERROR(AtFile(options.file, state.status()));
  PrintOne(options.format, *state);
  return absl::OkStatus();
}

absl::Status ReadLabels(const std::vector<std::string>& texts, v1::UpdateStateRequest& request) {
  request.clear_labels();
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0)
      return InvalidField("--label", text, "must be KEY=VALUE, as in run=17");
    (*request.mutable_labels())[text.substr(0, at)] = text.substr(at + 1);
  }
  return absl::OkStatus();
}

// What is not given stays as it is.
absl::Status Update(const StatesOptions& options) {
  const std::unique_ptr<StateStub> stub = options.Connect();
  v1::GetStateRequest get;
  get.set_name(options.name);
  ASSIGN_OR_RETURN(const v1::State now, Call(options.server, *stub, &StateStub::GetState, get));
  v1::UpdateStateRequest request;
  request.set_name(options.name);
  request.set_uid(options.uid.empty() ? now.uid() : options.uid);
  request.set_step(options.step.value_or(now.step()));
  *request.mutable_labels() = now.labels();
  if (!options.labels.empty()) RETURN_IF_ERROR(ReadLabels(options.labels, request));
  ASSIGN_OR_RETURN(const v1::UpdateStateResponse updated,
                   Call(options.server, *stub, &StateStub::UpdateState, request));
  PrintOne(options.format, updated.state());
  return absl::OkStatus();
}

absl::Status Delete(const StatesOptions& options) {
  ASSIGN_OR_RETURN(const v1::DeleteStateResponse response,
                   DeleteState(options.server, *options.Connect(), options.name, "", options.wait));
  if (options.format == OutputFormat::kJson || options.format == OutputFormat::kYaml) {
    Print(options.format, response, [] { return Table({}); });
  } else if (!response.absent_hosts().empty()) {
    std::cerr << "remeshctl: " << options.name
              << " is deleted; hosts that are away may hold buffers of it until they are back: "
              << absl::StrJoin(response.absent_hosts(), ", ") << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddStates(CLI::App& app, Command& command) {
  CLI::App* states = app.add_subcommand("states", "States that the server knows");
  states->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help,
                       absl::Status (*run)(const StatesOptions&), bool named) {
    const auto [sub, options] = AddVerb(*states, command, verb, help, run);
    if (named) AddName(*sub, kStateNames, options->name);
    return std::make_pair(sub, options);
  };
  const auto [list, list_options] = add("list", "List states by name", ListStates, false);
  AddParentFlag(*list, list_options->parent);
  AddPhaseFlag(*list, v1::State::Phase_descriptor(), list_options->phase);
  const auto [get, get_options] =
      add("get", "Show a state; with -o json its arrays and shardings too", Get, true);
  AddWatchFlag(*get, get_options->watch);
  const auto [create, create_options] = add("create", "Declare a state from a file", Create, false);
  create
      ->add_option("-f,--file", create_options->file, "remesh.v1.State as JSON or YAML; - is stdin")
      ->required();
  create->add_option("NAME", create_options->name, "Overrides the name in the file");
  create->add_flag("--validate-only", create_options->validate_only, "Check it, declare nothing");
  create->add_flag("--write-once", create_options->write_once,
                   "Its shards are written and sealed once, and never unsealed or lent");
  const auto [update, update_options] =
      add("update", "Set step or labels of a state that has not been READY yet", Update, true);
  update->add_option("--step", update_options->step, "Training step; without it, the step stays")
      ->transform(WholeNumber(0));
  update->add_option("--label", update_options->labels,
                     "KEY=VALUE, in place of all labels; may be repeated");
  update->add_option("--uid", update_options->uid, "Only if the state has this uid");
  const auto [remove, remove_options] = add(
      "delete",
      "Delete a state and free its buffers, and all that `workers owed` lists of its name: newer "
      "generations, too. Names hosts that are away and may still hold some",
      Delete, true);
  remove->add_flag("--wait,!--no-wait", remove_options->wait,
                   "Wait until every host that is attached has freed its buffers (default)");
  const auto [watch, _] = add("watch", "Print a state now and after every change", Watch, true);
  SetHelpOfWatchTimeout(*watch);
}

}  // namespace remesh::client
