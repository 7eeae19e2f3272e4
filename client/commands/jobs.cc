// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/delete_state.h"
#include "client/job_saves.h"
#include "client/watch/execution_wait.h"
#include "client/yaml_output.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;
using StateStub = v1::StateService::Stub;

struct JobsOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string job, parent;
  bool yes = false;

  std::unique_ptr<StateStub> Connect() const {
    return v1::StateService::NewStub(ConnectServer(server));
  }
};

absl::StatusOr<v1::ListStatesResponse> StatesBelow(const JobsOptions& options, StateStub& stub,
                                                   const std::string& parent) {
  v1::ListStatesRequest request;
  request.set_parent(parent);
  request.set_page_size(1000);
  request.set_view(v1::ListStatesRequest::BASIC);
  return CallAllPages(options.server, stub, &StateStub::ListStates, request);
}

// Prints what has no message of its own.
void PrintJson(OutputFormat format, const Json& json) {
  std::cout << (format == OutputFormat::kYaml ? ToYaml(json) : json.dump(1) + "\n");
}

std::string NameOf(const SaveName& save) { return absl::StrCat(save.world, "/", save.number); }

// "3 s", "5 m", "7 h", "2 d".
std::string AgeOf(const google::protobuf::Timestamp& time) {
  const int64_t seconds = std::max<int64_t>(
      0, absl::ToInt64Seconds(absl::Now() - absl::FromUnixSeconds(time.seconds())));
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 2 * 3600) return absl::StrCat(seconds / 60, " m");
  if (seconds < 2 * 86400) return absl::StrCat(seconds / 3600, " h");
  return absl::StrCat(seconds / 86400, " d");
}

Table Rows(const std::map<std::string, JobSaves>& jobs) {
  Table table(
      {"JOB", "SAVES", "NEWEST", "STEP", "BYTES", "AGE", "COVERED", "LAST SEEN", "RESERVED"},
      {"NEWEST COVERED", "PHASE", "STATES", "ALL BYTES"});
  for (const auto& [name, job] : jobs) {
    std::vector<std::string> row = {name, absl::StrCat(job.saves), "-", "-", "-", "-", "-"};
    if (job.newest) {
      const v1::State& state = job.newest->state;
      row = {name,
             absl::StrCat(job.saves),
             NameOf(job.newest->name),
             absl::StrCat(state.step()),
             FormatBytes(state.total_bytes()),
             AgeOf(state.create_time()),
             IsCovered(state) ? "yes" : "no"};
    }
    row.push_back(FormatTime(job.last_created));
    row.push_back(job.reserved_bytes == 0 ? "-" : FormatBytes(job.reserved_bytes));
    row.push_back(job.newest_covered ? NameOf(job.newest_covered->name) : "-");
    row.push_back(job.newest ? v1::State::Phase_Name(job.newest->state.phase()) : "-");
    row.push_back(absl::StrCat(job.states));
    row.push_back(FormatBytes(job.bytes));
    table.AddRow(std::move(row));
  }
  return table;
}

Json JsonOf(const JobSaves::Save& save) {
  return {{"name", save.state.name()},
          {"world", save.name.world},
          {"number", save.name.number},
          {"step", save.state.step()},
          {"totalBytes", save.state.total_bytes()},
          {"phase", v1::State::Phase_Name(save.state.phase())},
          {"createTime", FormatTime(save.state.create_time())}};
}

Json JsonOf(const std::map<std::string, JobSaves>& jobs) {
  Json list = Json::array();
  for (const auto& [name, job] : jobs) {
    Json one = {{"job", name}, {"saves", job.saves}};
    if (job.newest) one["newest"] = JsonOf(*job.newest);
    if (job.newest_covered) one["newestCovered"] = JsonOf(*job.newest_covered);
    one["states"] = job.states;
    one["totalBytes"] = job.bytes;
    one["reservedBytes"] = job.reserved_bytes;
    one["lastSeenTime"] = FormatTime(job.last_created);
    list.push_back(std::move(one));
  }
  return {{"jobs", std::move(list)}};
}

absl::Status ListJobs(const JobsOptions& options) {
  const std::unique_ptr<StateStub> stub = options.Connect();
  ASSIGN_OR_RETURN(const v1::ListStatesResponse states,
                   StatesBelow(options, *stub, options.parent));
  const std::map<std::string, JobSaves> jobs = SavesOf(states.states());
  if (IsTable(options.format)) {
    std::cout << Rows(jobs).ToString(options.format == OutputFormat::kWide);
  } else if (options.format == OutputFormat::kName) {
    for (const auto& [name, job] : jobs) std::cout << "jobs/" << name << "\n";
  } else {
    PrintJson(options.format, JsonOf(jobs));
  }
  return absl::OkStatus();
}

// The job's states, in the order in which they are deleted. Nothing is deleted while one of them
// moves: a move that ends later could not be distinguished from the rest of the job.
absl::StatusOr<std::vector<v1::State>> StatesToDelete(const JobsOptions& options, StateStub& stub,
                                                      const std::string& parent) {
  if (parent == "jobs/" || parent == "jobs/-") {
    return InvalidField("JOB", options.job, "must be the name of one job");
  }
  ASSIGN_OR_RETURN(const v1::ListStatesResponse states, StatesBelow(options, stub, parent));
  if (states.states().empty()) {
    return MakeError(absl::StatusCode::kNotFound,
                     absl::StrCat(parent, " has no states; remeshctl jobs list shows the jobs"),
                     {.reason = "JOB_NOT_FOUND", .metadata = {{"job", parent}}});
  }
  for (const v1::State& state : states.states()) {
    if (state.phase() != v1::State::MOVING) continue;
    return MakeError(
        absl::StatusCode::kAborted,
        absl::StrCat(state.name(), " is moving, so nothing was deleted: wait for ",
                     state.execution(), ", or end it with `remeshctl executions cancel ",
                     state.execution(), "`"),
        {.reason = "STATE_MOVING",
         .metadata = {{"state", state.name()}, {"execution", state.execution()}}});
  }
  return InOrderOfDeletion(states.states());
}

// Names on stderr what is to be deleted, and asks unless --yes was given.
absl::Status Confirm(const JobsOptions& options, const std::string& parent,
                     const std::vector<v1::State>& states) {
  Table table({"STATE", "PHASE", "STEP", "BYTES", "CREATED"});
  int64_t bytes = 0;
  for (const v1::State& state : states) {
    const std::string phase = IsReserved(state) ? "reserved" : v1::State::Phase_Name(state.phase());
    table.AddRow({state.name(), phase, absl::StrCat(state.step()), FormatBytes(state.total_bytes()),
                  FormatTime(state.create_time())});
    bytes += state.total_bytes();
  }
  std::cerr << table.ToString();
  if (options.yes) return absl::OkStatus();
  std::cerr << "Delete all " << states.size() << " states of " << parent << ", "
            << FormatBytes(bytes) << "? Nothing of them can be restored. [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);  // nothing at the end of stdin
  answer = absl::AsciiStrToLower(answer);
  if (answer == "y" || answer == "yes") return absl::OkStatus();
  std::cerr << "\n";
  return MakeError(absl::StatusCode::kCancelled,
                   absl::StrCat("nothing of ", parent, " was deleted; --yes deletes all of it"),
                   {.reason = "NOT_CONFIRMED", .metadata = {{"job", parent}}});
}

// What became of a job's states.
struct JobOutcome {
  std::vector<std::string> deleted;
  std::map<std::string, std::vector<std::string>> absent;  // host -> states of which it may hold
  absl::Status first_error;
};

// Waits for each deletion, but for no more after one that took too long: its hosts hold up all.
JobOutcome DeleteAll(const JobsOptions& options, StateStub& stub,
                     const std::vector<v1::State>& states) {
  JobOutcome outcome;
  bool wait = true;
  for (const v1::State& state : states) {
    const auto response = DeleteState(options.server, stub, state.name(), state.uid(), wait);
    if (response.ok() || absl::IsNotFound(response.status())) {
      outcome.deleted.push_back(state.name());
    } else if (outcome.first_error.ok()) {
      outcome.first_error = response.status();
    }
    if (absl::IsUnavailable(response.status())) break;
    wait = wait && !absl::IsDeadlineExceeded(response.status());
    if (!response.ok()) continue;
    for (const std::string& host : response->absent_hosts()) {
      outcome.absent[host].push_back(state.name());
    }
  }
  return outcome;
}

void PrintOutcome(const JobsOptions& options, const JobOutcome& outcome) {
  if (options.format == OutputFormat::kName) {
    for (const std::string& name : outcome.deleted) std::cout << name << "\n";
  } else if (!IsTable(options.format)) {
    PrintJson(options.format, {{"deleted", outcome.deleted}, {"absentHosts", outcome.absent}});
  } else {
    std::cerr << "deleted " << outcome.deleted.size() << " states\n";
    if (outcome.absent.empty()) return;
    Table table({"ABSENT HOST", "MAY HOLD"}, {"STATES"});
    for (const auto& [host, states] : outcome.absent) {
      table.AddRow({host, absl::StrCat(states.size(), " states"), absl::StrJoin(states, ",")});
    }
    std::cout << table.ToString(options.format == OutputFormat::kWide);
  }
}

absl::Status DeleteJob(const JobsOptions& options) {
  const std::string parent = WithPrefix("jobs/", options.job);
  const std::unique_ptr<StateStub> stub = options.Connect();
  ASSIGN_OR_RETURN(const std::vector<v1::State> states, StatesToDelete(options, *stub, parent));
  RETURN_IF_ERROR(Confirm(options, parent, states));
  const JobOutcome outcome = DeleteAll(options, *stub, states);
  PrintOutcome(options, outcome);
  RETURN_IF_ERROR(outcome.first_error);
  ASSIGN_OR_RETURN(const v1::ListStatesResponse left, StatesBelow(options, *stub, parent));
  if (left.states().empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kAborted,
                   absl::StrCat(parent, " has states again, such as ", left.states(0).name(),
                                ": it still runs; end its processes first"),
                   {.reason = "JOB_RUNS", .metadata = {{"job", parent}}});
}

}  // namespace

void AddJobs(CLI::App& app, Command& command) {
  CLI::App* jobs = app.add_subcommand("jobs", "Training jobs, by the saves of their states");
  jobs->require_subcommand(1);
  const auto [list, list_options] =
      AddVerb(*jobs, command, "list", "List jobs with their newest saves", ListJobs);
  AddParentFlag(*list, list_options->parent);
  list->footer(
      "NEWEST is WORLD/NUMBER of the newest save. COVERED: hosts that are there hold all of it, so "
      "a\n"
      "restore takes it. LAST SEEN: when a process of the job last began a save, or the job began; "
      "it\n"
      "may run still. RESERVED: memory for the next save, which is none of the saves yet.");
  const auto [remove, remove_options] = AddVerb(
      *jobs, command, "delete",
      "Delete all states of a job, wait until hosts have freed them, and name hosts that are away",
      DeleteJob);
  AddName(*remove, kJobNames, remove_options->job, "JOB");
  remove->add_flag("--yes", remove_options->yes, "Do not ask");
}

}  // namespace remesh::client
