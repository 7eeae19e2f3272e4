// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/job_saves.h"
#include "client/save_holders.h"
#include "client/save_name.h"
#include "client/watch/execution_wait.h"
#include "client/yaml_output.h"
#include "remesh/v1/state.grpc.pb.h"

namespace remesh::client {
namespace {

using Json = nlohmann::ordered_json;
using StateStub = v1::StateService::Stub;

struct DescribeOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string job;
};

struct DescribedSave {
  SaveName name;
  v1::State state;
  SaveHolders holders;
};

// What a host holds of a job, and what is left if it goes.
struct DescribedHost {
  int64_t bytes = 0;
  std::vector<const DescribedSave*> needed_by;   // saves that are lost with it
  const DescribedSave* restored_then = nullptr;  // the newest one that is left
};

std::string ShortName(const SaveName& save) { return absl::StrCat(save.world, "/", save.number); }

// The job's saves, the newest first.
absl::StatusOr<std::vector<DescribedSave>> SavesOf(const DescribeOptions& options,
                                                   const std::string& parent) {
  if (parent == "jobs/" || parent == "jobs/-") {
    return InvalidField("JOB", options.job, "must be the name of one job");
  }
  v1::ListStatesRequest request;
  request.set_parent(parent);
  const std::unique_ptr<StateStub> stub = v1::StateService::NewStub(ConnectServer(options.server));
  ASSIGN_OR_RETURN(const v1::ListStatesResponse states,
                   CallAllPages(options.server, *stub, &StateStub::ListStates, request));
  if (states.states().empty()) {
    return MakeError(absl::StatusCode::kNotFound,
                     absl::StrCat(parent, " has no states; remeshctl jobs list shows the jobs"),
                     {.reason = "JOB_NOT_FOUND", .metadata = {{"job", parent}}});
  }
  std::vector<DescribedSave> saves;
  for (const v1::State& state : states.states()) {
    const std::optional<SaveName> name = ParseSaveName(LastPartOf(state.name()));
    if (!name || IsReserved(state)) continue;  // a reserved state holds nothing
    ASSIGN_OR_RETURN(SaveHolders holders, HoldersOf(state));
    saves.push_back({.name = *name, .state = state, .holders = std::move(holders)});
  }
  std::sort(saves.begin(), saves.end(),
            [](const auto& a, const auto& b) { return b.name < a.name; });
  return saves;
}

std::map<std::string, DescribedHost> HostsOf(const std::vector<DescribedSave>& saves) {
  std::map<std::string, DescribedHost> hosts;
  for (const DescribedSave& save : saves) {
    for (const auto& [host, bytes] : save.holders.bytes) hosts[host].bytes += bytes;
  }
  for (auto& [name, host] : hosts) {
    for (const DescribedSave& save : saves) {
      if (!save.holders.covered) continue;
      if (save.holders.needed.contains(name)) {
        host.needed_by.push_back(&save);
      } else if (host.restored_then == nullptr) {
        host.restored_then = &save;
      }
    }
  }
  return hosts;
}

Table SaveTable(const std::vector<DescribedSave>& saves) {
  Table table({"SAVE", "STEP", "BYTES", "PHASE", "HOSTS", "AWAY", "LOST IF ONE OF THESE GOES"},
              {"NAME"});
  for (const DescribedSave& save : saves) {
    const v1::State& state = save.state;
    table.AddRow({ShortName(save.name), absl::StrCat(state.step()),
                  FormatBytes(state.total_bytes()), v1::State::Phase_Name(state.phase()),
                  absl::StrCat(save.holders.bytes.size()),
                  OrDash(absl::StrJoin(state.lost_hosts(), ",")),
                  OrDash(absl::StrJoin(save.holders.needed, ",")), state.name()});
  }
  return table;
}

Table HostTable(const std::map<std::string, DescribedHost>& hosts) {
  Table table({"HOST", "BYTES", "ITS LOSS COSTS", "THEN RESTORED", "STEP"});
  for (const auto& [name, host] : hosts) {
    const std::string costs =
        absl::StrJoin(host.needed_by, ",", [](std::string* out, const DescribedSave* save) {
          absl::StrAppend(out, ShortName(save->name));
        });
    const DescribedSave* then = host.restored_then;
    table.AddRow({name, FormatBytes(host.bytes), OrDash(costs),
                  then ? ShortName(then->name) : "nothing",
                  then ? absl::StrCat(then->state.step()) : "-"});
  }
  return table;
}

Json JsonOf(const DescribedSave& save) {
  const v1::State& state = save.state;
  Json hosts = Json::array();
  for (const auto& [host, bytes] : save.holders.bytes) {
    hosts.push_back(
        {{"host", host}, {"bytes", bytes}, {"lossCostsSave", save.holders.needed.contains(host)}});
  }
  return {
      {"name", state.name()},
      {"world", save.name.world},
      {"number", save.name.number},
      {"step", state.step()},
      {"totalBytes", state.total_bytes()},
      {"phase", v1::State::Phase_Name(state.phase())},
      {"createTime", FormatTime(state.create_time())},
      {"covered", save.holders.covered},
      {"lostHosts", std::vector<std::string>(state.lost_hosts().begin(), state.lost_hosts().end())},
      {"hosts", std::move(hosts)}};
}

Json JsonOf(const std::string& name, const DescribedHost& host) {
  Json costs = Json::array();
  for (const DescribedSave* save : host.needed_by) costs.push_back(save->state.name());
  Json json = {{"host", name}, {"totalBytes", host.bytes}, {"lossCosts", std::move(costs)}};
  if (host.restored_then) json["thenRestored"] = host.restored_then->state.name();
  return json;
}

void PrintTables(const DescribeOptions& options, const std::vector<DescribedSave>& saves) {
  if (saves.empty()) {
    std::cerr << WithPrefix("jobs/", options.job) << " has no saves\n";
    return;
  }
  std::cout << SaveTable(saves).ToString(options.format == OutputFormat::kWide) << "\n"
            << HostTable(HostsOf(saves)).ToString();
}

void PrintDocument(const DescribeOptions& options, const std::vector<DescribedSave>& saves) {
  Json json = {{"job", JobOf(WithPrefix("jobs/", options.job) + "/")},
               {"saves", Json::array()},
               {"hosts", Json::array()}};
  for (const DescribedSave& save : saves) json["saves"].push_back(JsonOf(save));
  for (const auto& [name, host] : HostsOf(saves)) json["hosts"].push_back(JsonOf(name, host));
  std::cout << (options.format == OutputFormat::kYaml ? ToYaml(json) : json.dump(1) + "\n");
}

absl::Status DescribeJob(const DescribeOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<DescribedSave> saves,
                   SavesOf(options, WithPrefix("jobs/", options.job)));
  if (IsTable(options.format)) {
    PrintTables(options, saves);
  } else if (options.format == OutputFormat::kName) {
    for (const DescribedSave& save : saves) std::cout << save.state.name() << "\n";
  } else {
    PrintDocument(options, saves);
  }
  return absl::OkStatus();
}

}  // namespace

void AddDescribeJob(CLI::App& app, Command& command) {
  const auto [describe, options] = AddVerb(
      *app.get_subcommand("jobs"), command, "describe",
      "Show what each host holds of a job's saves, and what its loss would cost", DescribeJob);
  AddName(*describe, kJobNames, options->job, "JOB");
  describe->footer(
      "LOST IF ONE OF THESE GOES: hosts that alone hold a part of the save, as things are now. "
      "ITS\n"
      "LOSS COSTS: the saves that are lost with the host and its memory; THEN RESTORED: the "
      "newest\n"
      "one that is left.");
}

}  // namespace remesh::client
