// SPDX-License-Identifier: Apache-2.0
//
// The main program of remeshctl. Data goes to stdout, everything else to stderr. Exit codes: 0
// done, 1 refused or failed, 2 usage, 3 outcome unknown.
#include <iostream>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/error.h"
#include "base/problems.h"
#include "base/text/visible.h"
#include "client/commands/command.h"
#include "client/commands/commands.h"
#include "client/commands/examples.h"
#include "client/commands/habits.h"
#include "client/contexts.h"
#include "client/output.h"
#include "client/watch/execution_wait.h"
#include "service/process/version.h"
#include "service/settings/command_line.h"

namespace remesh::client {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kUnknown = 3;

constexpr std::string_view kContextFlag = "--context";

// Prints the message, those of further problems, then the metadata that the message does not
// contain.
void PrintError(const absl::Status& status) {
  const ErrorInfo info = GetErrorInfo(status);
  const std::string message = Visible({status.message().data(), status.message().size()});
  const std::string code = absl::StatusCodeToString(status.code());
  std::cerr << "remeshctl: " << message << "\n";
  for (const FurtherProblem& problem : FurtherProblems(status)) {
    std::cerr << "remeshctl: " << Visible(problem.field) << (problem.field.empty() ? "" : ": ")
              << Visible(problem.description) << "\n";
  }
  if (info.reason != code) std::cerr << "  code: " << code << "\n";
  std::cerr << "  reason: " << info.reason << "\n";
  for (const auto& [key, raw] : info.metadata) {
    const std::string value = Visible(raw);
    if (!value.empty() && message.find(value) == std::string::npos)
      std::cerr << "  " << Visible(key) << ": " << value << "\n";
  }
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
  AddJobs(app, command);
  AddDescribeJob(app, command);
  AddResizeJob(app, command);
  AddPut(app, command);
  AddGet(app, command);
  AddSeal(app, command);
  AddReshard(app, command);
  AddExecutions(app, command);
  AddWorkers(app, command);
  AddWorlds(app, command);
  AddJournal(app, command);
  AddDebug(app, command);
  AddConfig(app, command);
  AddDemo(app, command);
  AddCompletion(app, command);
  AddHelp(app, command);
  AddVersion(app, command);
  AddAliases(app);
  AddExamples(app);
}

int Ended(const absl::Status& status) {
  if (status.ok()) return kDone;
  PrintError(status);
  return GetErrorInfo(status).reason == kOutcomeUnknown ? kUnknown : kFailed;
}

// Takes --context NAME out of the command line, wherever it stands, before the other flags are
// parsed, because the context sets their defaults.
std::string TakeContext(std::vector<char*>& arguments) {
  std::string name;
  for (size_t i = 1; i < arguments.size();) {
    const std::string_view word = arguments[i];
    if (word == "--") break;
    if (word == kContextFlag && i + 1 < arguments.size()) {
      name = arguments[i + 1];
      arguments.erase(arguments.begin() + i, arguments.begin() + i + 2);
    } else if (word.starts_with(kContextFlag) &&
               word.substr(kContextFlag.size()).starts_with('=')) {
      name = word.substr(kContextFlag.size() + 1);
      arguments.erase(arguments.begin() + i);
    } else {
      ++i;
    }
  }
  return name;
}

// Whether the command needs the context: an unreadable file of contexts must not prevent users from
// inspecting it or reading the help.
bool NeedsContext(const std::vector<char*>& arguments) {
  if (arguments.size() < 2) return false;
  const std::string_view first = arguments[1];
  return first != "config" && first != "help" && first != "version" && first != "completion" &&
         !first.starts_with("-");
}

bool HasServer(const std::vector<char*>& arguments) {
  for (const std::string_view word : arguments) {
    if (word == "--") return false;
    if (word == "--server" || word.starts_with("--server=")) return true;
  }
  return false;
}

// Says how to write a command whose verb was written before its noun. False: it was not.
bool ExplainNounFirst(const CLI::App& app, const std::vector<char*>& arguments) {
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  const std::string right = NounFirst(app, words);
  if (right.empty()) return false;
  std::cerr << "remeshctl: \"" << words[0] << " " << words[1]
            << "\" is not a command; did you mean \"remeshctl " << right << "\"?\n";
  return true;
}

service::UsageHints Hints() {
  return {.elsewhere = {std::string(kContextFlag)},
          .instead = WordsInstead(),
          .notes = NotesOnFlags(),
          .values = ValuesOfFlags(),
          .example = ExampleOf};
}

int Main(int all_count, char** all) {
  std::vector<char*> arguments(all, all + all_count);
  const std::string context = TakeContext(arguments);
  if (NeedsContext(arguments)) {
    const absl::Status applied =
        ApplyContext({.context = context, .has_server = HasServer(arguments)});
    if (!applied.ok()) return Ended(applied);
  }
  const int argc = static_cast<int>(arguments.size());
  char** const argv = arguments.data();
  CLI::App app("Moves the state of training jobs from one sharding to another.", "remeshctl");
  app.set_version_flag("--version", std::string(service::kVersion));
  app.require_subcommand(1);
  app.footer(
      "--context NAME, anywhere: a server of the file of contexts, see remeshctl config.\n"
      "Exit codes: 0 done, 1 refused or failed (reason on stderr), 2 usage, 3 outcome unknown: a "
      "wait ended before its move did.");
  Command command;
  AddCommands(app, command);
  if (ExplainNounFirst(app, arguments)) return kUsage;
  try {
    app.parse(service::WordsForCli(argc, argv));
  } catch (const CLI::ParseError& e) {
    const int code = service::EndUsage("remeshctl", app, e, Hints());
    return code == kDone ? Ended(CheckStdout()) : code;
  }
  const absl::Status status = command();
  return Ended(status.ok() ? CheckStdout() : status);
}

}  // namespace
}  // namespace remesh::client

int main(int argc, char** argv) { return remesh::client::Main(argc, argv); }
