// SPDX-License-Identifier: Apache-2.0
//
// remeshctl. Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 refused or
// failed, 2 usage.
#include <iostream>

#include "CLI/CLI.hpp"
#include "base/error.h"
#include "client/commands/cache.h"
#include "client/commands/command.h"
#include "client/commands/demo.h"
#include "client/commands/executions.h"
#include "client/commands/get.h"
#include "client/commands/layout.h"
#include "client/commands/plan.h"
#include "client/commands/plans.h"
#include "client/commands/put.h"
#include "client/commands/reshard.h"
#include "client/commands/sharding.h"
#include "client/commands/states.h"
#include "client/commands/suggest.h"
#include "client/commands/topology.h"
#include "client/commands/workers.h"
#include "service/version.h"

namespace remesh {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

void PrintError(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  std::cerr << "remeshctl: " << status.message() << "\n  reason: " << info.reason << "\n";
  for (const auto& [key, value] : info.metadata) std::cerr << "  " << key << ": " << value << "\n";
}

// The word where a command should stand and none of that name is; "" when there is no such word.
std::string UnknownCommand(const CLI::App* app, int argc, char** argv) {
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const auto named = [](const CLI::App* sub) { return !sub->get_name().empty(); };
    if (app->get_subcommands(named).empty()) return "";
    try {
      app = app->get_subcommand(argv[i]);
    } catch (const CLI::OptionNotFound&) {
      return argv[i];
    }
  }
  return "";
}

int Main(int argc, char** argv) {
  CLI::App app("Moves the state of training jobs from one sharding to another.", "remeshctl");
  app.set_version_flag("--version", std::string(kVersion));
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 refused or failed (reason on stderr), 2 usage.");
  Command command;
  AddLayout(app, command);
  AddSharding(app, command);
  AddSuggest(app, command);
  AddTopology(app, command);
  AddPlan(app, command);
  AddPlans(app, command);
  AddCache(app, command);
  AddStates(app, command);
  AddPut(app, command);
  AddGet(app, command);
  AddReshard(app, command);
  AddExecutions(app, command);
  AddWorkers(app, command);
  AddDemo(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (const std::string word = UnknownCommand(&app, argc, argv); !word.empty()) {
      std::cerr << "remeshctl: \"" << word << "\" is no command; --help lists them\n";
      return kUsage;
    }
    return app.exit(e) == 0 ? kDone : kUsage;
  }
  const absl::Status status = command();
  if (status.ok()) return kDone;
  PrintError(status);
  return kFailed;
}

}  // namespace
}  // namespace remesh

int main(int argc, char** argv) { return remesh::Main(argc, argv); }
