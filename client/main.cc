// SPDX-License-Identifier: Apache-2.0
//
// remeshctl. Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 refused or
// failed, 2 usage.
#include <iostream>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/nearest.h"
#include "client/commands/command.h"
#include "client/commands/commands.h"
#include "client/contexts.h"
#include "client/output.h"
#include "service/command_line.h"
#include "service/version.h"

namespace remesh::client {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

// The message, then what it does not say itself.
void PrintError(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  const std::string message(status.message()), code = absl::StatusCodeToString(status.code());
  std::cerr << "remeshctl: " << message << "\n";
  if (info.reason != code) std::cerr << "  code: " << code << "\n";
  std::cerr << "  reason: " << info.reason << "\n";
  for (const auto& [key, value] : info.metadata) {
    if (!value.empty() && message.find(value) == std::string::npos)
      std::cerr << "  " << key << ": " << value << "\n";
  }
}

// What is wrong with the word where a command should stand and none of that name is; "" when there
// is no such word.
std::string UnknownCommand(const CLI::App* app, int argc, char** argv) {
  const auto named = [](const CLI::App* sub) { return !sub->get_name().empty(); };
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string> names;
    for (const CLI::App* sub : app->get_subcommands(named)) names.push_back(sub->get_name());
    if (names.empty()) return "";
    try {
      app = app->get_subcommand(argv[i]);
    } catch (const CLI::OptionNotFound&) {
      const std::string nearest = DidYouMean(argv[i], names);
      return absl::StrCat("\"", argv[i], "\" is no command",
                          nearest.empty() ? "; --help lists them" : nearest);
    }
  }
  return "";
}

void AddCommands(CLI::App& app, Command& command) {
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
  AddJournal(app, command);
  AddDebug(app, command);
  AddConfig(app, command);
  AddDemo(app, command);
  AddCompletion(app, command);
  AddHelp(app, command);
  AddVersion(app, command);
}

int Ended(const absl::Status& status) {
  if (!status.ok()) PrintError(status);
  return status.ok() ? kDone : kFailed;
}

// Takes --context NAME out of the command line, wherever it stands: it decides what the flags'
// defaults are, before they are read.
std::string TakeContext(std::vector<char*>& arguments) {
  constexpr std::string_view kFlag = "--context";
  std::string name;
  for (size_t i = 1; i < arguments.size();) {
    const std::string_view word = arguments[i];
    if (word == "--") break;
    if (word == kFlag && i + 1 < arguments.size()) {
      name = arguments[i + 1];
      arguments.erase(arguments.begin() + i, arguments.begin() + i + 2);
    } else if (word.starts_with(kFlag) && word.substr(kFlag.size()).starts_with('=')) {
      name = word.substr(kFlag.size() + 1);
      arguments.erase(arguments.begin() + i);
    } else {
      ++i;
    }
  }
  return name;
}

// A file of contexts that cannot be read is no reason not to look at it, or for help.
bool NeedsContext(const std::vector<char*>& arguments) {
  if (arguments.size() < 2) return false;
  const std::string_view first = arguments[1];
  return first != "config" && first != "help" && first != "version" && first != "completion" &&
         !first.starts_with("-");
}

int Main(int all_count, char** all) {
  std::vector<char*> arguments(all, all + all_count);
  const std::string context = TakeContext(arguments);
  if (NeedsContext(arguments)) {
    const absl::Status applied = ApplyContext(context);
    if (!applied.ok()) return Ended(applied);
  }
  const int argc = static_cast<int>(arguments.size());
  char** const argv = arguments.data();
  CLI::App app("Moves the state of training jobs from one sharding to another.", "remeshctl");
  app.set_version_flag("--version", std::string(service::kVersion));
  app.require_subcommand(1);
  app.footer(
      "--context NAME, anywhere: a server of the file of contexts, see remeshctl config.\n"
      "Exit codes: 0 done, 1 refused or failed (reason on stderr), 2 usage.");
  Command command;
  AddCommands(app, command);
  try {
    app.parse(service::WordsForCli(argc, argv));
  } catch (const CLI::ParseError& e) {
    if (const std::string problem = UnknownCommand(&app, argc, argv); !problem.empty()) {
      std::cerr << "remeshctl: " << problem << "\n";
      return kUsage;
    }
    return app.exit(e) == 0 ? Ended(CheckStdout()) : kUsage;
  }
  const absl::Status status = command();
  return Ended(status.ok() ? CheckStdout() : status);
}

}  // namespace
}  // namespace remesh::client

int main(int argc, char** argv) { return remesh::client::Main(argc, argv); }
