// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "client/commands/commands.h"
#include "client/world_members.h"
#include "remesh/v1/coordination.grpc.pb.h"

namespace remesh::client {
namespace {

using WorldStub = v1::CoordinationService::Stub;

struct WorldsOptions {
  Endpoint server;
  OutputFormat format = OutputFormat::kTable;
  std::string name, parent, phase;
  bool watch = false;
  double interval_seconds = 1;
};

std::string SizeOf(const v1::World& world) {
  const std::string most = world.max_size() == 0 ? "?" : absl::StrCat(world.max_size());
  if (world.phase() != v1::World::FORMING || world.min_size() == world.max_size()) {
    return absl::StrCat(world.members_size(), "/", most);
  }
  return absl::StrCat(world.members_size(), "/", world.min_size(), "-", most);
}

// What the world waits for, in short.
std::string WaitsFor(const v1::World& world) {
  if (world.phase() == v1::World::OVER) return world.over();
  if (world.waiting().empty()) return "-";
  const v1::World::Waiting& first = world.waiting(0);
  return absl::StrCat(first.name(), ": ", MemberNames(first.absent(), world));
}

Table Rows(const google::protobuf::RepeatedPtrField<v1::World>& worlds) {
  Table table({"NAME", "PHASE", "EPOCH", "MEMBERS", "SINCE", "WAITS FOR"}, {"ATTEMPT"});
  for (const v1::World& world : worlds) {
    table.AddRow({world.name(), v1::World::Phase_Name(world.phase()), absl::StrCat(world.epoch()),
                  SizeOf(world), FormatTime(world.since()), WaitsFor(world),
                  OrDash(world.attempt())});
  }
  return table;
}

absl::StatusOr<v1::ListWorldsResponse> AllWorlds(const WorldsOptions& options, WorldStub& stub) {
  v1::ListWorldsRequest request;
  request.set_parent(options.parent);
  request.set_page_size(1000);
  return CallAllPages(options.server, stub, &WorldStub::ListWorlds, request);
}

std::string SinceOf(const v1::World::Waiting& round) {
  return round.has_since() ? FormatTime(round.since()) : "before the server's restart";
}

// The rounds that wait for the member.
std::string AwaitedBy(int rank, const v1::World& world) {
  std::vector<std::string> awaited;
  for (const v1::World::Waiting& round : world.waiting()) {
    for (const int absent : round.absent()) {
      if (absent != rank) continue;
      awaited.push_back(absl::StrCat(round.name(), " since ", SinceOf(round)));
    }
  }
  return OrDash(absl::StrJoin(awaited, "; "));
}

// Who is in, and who has come to each round that waits.
Table MemberRows(const v1::World& world) {
  Table table({"RANK", "HOST", "PID", "DEVICES", "AWAITED BY"}, {});
  for (const v1::WorldMember& member : world.members()) {
    table.AddRow({absl::StrCat(member.rank()), member.host(), absl::StrCat(member.pid()),
                  OrDash(absl::StrJoin(member.device_ids(), ",")),
                  AwaitedBy(member.rank(), world)});
  }
  return table;
}

absl::Status DescribeWorld(const WorldsOptions& options) {
  const auto stub = v1::CoordinationService::NewStub(ConnectServer(options.server));
  WorldsOptions of_job = options;
  of_job.parent = options.name.substr(0, options.name.find("/worlds/"));
  ASSIGN_OR_RETURN(const v1::ListWorldsResponse response, AllWorlds(of_job, *stub));
  std::vector<std::string> names;
  for (const v1::World& world : response.worlds()) {
    names.push_back(world.name());
    if (world.name() != options.name) continue;
    if (!IsTable(options.format)) {
      Print(options.format, world, [&] { return Table({}, {}); });
      return absl::OkStatus();
    }
    v1::ListWorldsResponse one;
    *one.add_worlds() = world;
    Print(options.format, one, [&] { return Rows(one.worlds()); });
    std::cout << "\n";
    Print(options.format, one, [&] { return MemberRows(world); });
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat(options.name, " does not exist",
                                names.empty() ? "; remeshctl worlds list shows those that exist"
                                              : DidYouMean(options.name, names)),
                   {.reason = "WORLD_NOT_FOUND", .metadata = {{"name", options.name}}});
}

std::string LineOf(const v1::World& world) {
  return absl::StrCat(FormatTime(world.since()), " ", world.name(), " ",
                      v1::World::Phase_Name(world.phase()), " epoch ", world.epoch(), " members ",
                      SizeOf(world), " waits for ", WaitsFor(world));
}

// Prints each world when it is first seen and whenever it has changed.
absl::Status WatchWorlds(const WorldsOptions& options) {
  const auto stub = v1::CoordinationService::NewStub(ConnectServer(options.server));
  std::map<std::string, std::string> last;
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListWorldsResponse response, AllWorlds(options, *stub));
    std::map<std::string, std::string> present;
    for (const v1::World& world : response.worlds()) {
      const std::string line = LineOf(world);
      const auto before = last.find(world.name());
      if (before == last.end() || before->second != line) PrintNext(options.format, world, line);
      present[world.name()] = line;
    }
    last = std::move(present);
    RETURN_IF_ERROR(CheckStdout());
    absl::SleepFor(absl::Seconds(options.interval_seconds));
  }
}

absl::Status ListWorlds(const WorldsOptions& options) {
  if (options.watch) return WatchWorlds(options);
  const auto stub = v1::CoordinationService::NewStub(ConnectServer(options.server));
  ASSIGN_OR_RETURN(v1::ListWorldsResponse response, AllWorlds(options, *stub));
  KeepPhase(options.phase, *response.mutable_worlds());
  Print(options.format, response, [&] { return Rows(response.worlds()); });
  return absl::OkStatus();
}

}  // namespace

void AddWorlds(CLI::App& app, Command& command) {
  CLI::App* worlds = app.add_subcommand("worlds", "Worlds of trainer processes");
  worlds->require_subcommand(1);
  const auto add = [&](const char* verb, const char* help,
                       absl::Status (*run)(const WorldsOptions&)) {
    const auto [sub, options] = AddVerb(*worlds, command, verb, help, run);
    if (run == DescribeWorld) {
      AddName(*sub, kWorldNames, options->name);
    } else {
      AddParentFlag(*sub, options->parent);
    }
    if (run == ListWorlds) {
      AddPhaseFlag(*sub, v1::World::Phase_descriptor(), options->phase);
      AddWatchFlag(*sub, options->watch);
    }
    if (run != WatchWorlds) return;
    SetHelpOfWatchTimeout(*sub);
    sub->add_option("--interval", options->interval_seconds, "Time between two lists, seconds")
        ->transform(Seconds())
        ->capture_default_str();
  };
  add("list", "List worlds, and whom each waits for", ListWorlds);
  add("describe", "Show the members of a world, and which rounds wait for whom", DescribeWorld);
  add("watch", "Print worlds whenever they change", WatchWorlds);
}

}  // namespace remesh::client
