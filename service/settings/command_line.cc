// SPDX-License-Identifier: Apache-2.0
#include "service/settings/command_line.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest.h"

namespace remesh::service {
namespace {

constexpr int kUsage = 2;

bool IsFlag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

std::string WithoutDashes(std::string_view flag) {
  flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
  return std::string(flag);
}

// Includes the flags of option groups, which are subcommands without a name.
std::vector<std::string> LongFlagsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  const auto nameless = [](const CLI::App* sub) { return sub->get_name().empty(); };
  for (const CLI::App* group : app.get_subcommands(nameless)) {
    const std::vector<std::string> more = LongFlagsOf(*group);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::string UnknownCommand(const std::string& word, const std::vector<std::string>& commands) {
  const std::string nearest = DidYouMean(word, commands);
  return absl::StrCat("\"", word, "\" is not a command",
                      nearest.empty() ? "; --help lists them" : nearest);
}

std::string UnknownFlag(const std::string& flag, const CLI::App& app, bool before_command,
                        const std::vector<std::string>& elsewhere) {
  std::vector<std::string> names = LongFlagsOf(app);
  for (const std::string& other : elsewhere) names.push_back(WithoutDashes(other));
  const std::string nearest = Nearest(WithoutDashes(flag), names);
  if (flag == absl::StrCat("--", nearest)) return absl::StrCat(flag, " needs a value");
  std::string hint = "; --help lists them";
  if (before_command) hint = " here; put a command's flags after it";
  if (!nearest.empty()) hint = absl::StrCat("; did you mean --", nearest, "?");
  return absl::StrCat("unknown flag ", flag, hint);
}

}  // namespace

std::vector<std::string> WordsForCli(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool empty_value = word.starts_with("--") && word.find('=') == word.size() - 1;
    words.emplace_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  const auto named = [](const CLI::App* sub) { return !sub->get_name().empty(); };
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands(named)) names.push_back(sub->get_name());
  return names;
}

std::string UnknownWord(const CLI::App& app, const std::vector<std::string>& elsewhere) {
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) {
    for (const CLI::App* parsed : app.get_subcommands()) {
      const std::string problem = UnknownWord(*parsed, elsewhere);
      if (!problem.empty()) return problem;
    }
    return "";
  }
  const std::string& word = left.front();
  const std::vector<std::string> commands = CommandsOf(app);
  if (IsFlag(word)) {
    return UnknownFlag(word.substr(0, word.find('=')), app, !commands.empty(), elsewhere);
  }
  if (!commands.empty()) return UnknownCommand(word, commands);
  return absl::StrCat("\"", word, "\": unexpected argument; see --help");
}

namespace {

// The innermost command on the command line.
const CLI::App& Named(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() || parsed.front()->get_name().empty() ? app : Named(*parsed.front());
}

// The text of a usage error: ours if CLI11's does not help.
std::string Problem(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& elsewhere) {
  const std::string unknown = UnknownWord(app, elsewhere);
  if (!unknown.empty()) return unknown;
  const CLI::App& named = Named(app);
  const std::vector<std::string> commands = CommandsOf(named);
  if (commands.empty())
    return absl::StrCat(error.what(), "\nRun with --help for more information.");
  return absl::StrCat(&named == &app ? "" : named.get_name() + ": ",
                      "a command is missing, one of ", absl::StrJoin(commands, ", "));
}

}  // namespace

int EndUsage(std::string_view program, const CLI::App& app, const CLI::ParseError& error,
             const std::vector<std::string>& elsewhere) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::cerr << program << ": " << Problem(app, error, elsewhere) << "\n";
  return kUsage;
}

}  // namespace remesh::service
