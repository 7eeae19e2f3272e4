// SPDX-License-Identifier: Apache-2.0
#include "service/settings/read_settings.h"

#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "service/process/small_file.h"
#include "service/process/version.h"
#include "service/settings/command_line.h"

namespace remesh::service {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// The setting that an error is about: "topology" of "topology.hosts[3].match"; "" when unknown.
std::string KeyOf(const absl::Status& problem) {
  const std::map<std::string, std::string> facts = GetErrorInfo(problem).metadata;
  for (const char* name : {"key", "field"}) {
    const auto found = facts.find(name);
    if (found != facts.end()) return found->second.substr(0, found->second.find_first_of(".["));
  }
  return "";
}

// The line on which a file sets `key`, counted from 1; 0: it has no line of its own.
int LineOf(const std::string& text, const std::string& key) {
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (key.empty() || !absl::ConsumePrefix(&line, key)) continue;
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), ":")) return number;
  }
  return 0;
}

// The options of the command line besides the settings.
struct Options {
  std::string config_path;
  bool print_config = false;
  bool check_config = false;
};

// Returns the exit code, or nullopt if the program should run.
std::optional<int> ParseFlags(int argc, char** argv, const std::string& description,
                              const std::vector<OtherUse>& others, Settings& settings,
                              Options& options) {
  CLI::App app(description, argc > 0 ? argv[0] : "");
  app.set_version_flag("--version", std::string(kVersion));
  app.add_option("--config", options.config_path, "YAML file with settings; flags override it.")
      ->type_name("FILE");
  app.add_flag("--print-config", options.print_config,
               "Print a commented file of all settings, with the values that file and flags set, "
               "and exit.");
  app.add_flag("--check-config", options.check_config,
               "Check file, flags and the files that they name, print \"ok\" or every error, and "
               "exit. Opens no journal, port or connection and writes no file.");
  std::function<int()> other;
  for (const OtherUse& use : others) {
    const auto chosen = [&](const std::string& file) {
      other = [&use, file] { return use.run(file); };
    };
    app.add_option_function<std::string>(use.flag, chosen, use.help)->type_name("FILE");
  }
  settings.AddFlags(app);
  try {
    app.parse(WordsForCli(argc, argv));
  } catch (const CLI::ParseError& e) {
    const std::string_view program = argc > 0 ? argv[0] : "";
    return EndUsage(program.substr(program.rfind('/') + 1), app, e);
  }
  if (other) return other();
  return std::nullopt;
}

struct Problem {
  std::string origin;  // the file's path, or "flags"
  std::string text;    // the text of the file
  absl::Status status;
};

void Tell(const Problem& problem) {
  const int line = LineOf(problem.text, KeyOf(problem.status));
  std::cerr << problem.origin << (line > 0 ? absl::StrCat(":", line) : "") << ": "
            << problem.status.message() << "\n";
}

int Refuse(const std::vector<Problem>& problems) {
  for (const Problem& problem : problems) Tell(problem);
  return kUsage;
}

absl::Status Ignored(const std::string& key) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(key, " has no effect any more: remove it"),
                   {.reason = "RETIRED_SETTING", .metadata = {{"key", key}}});
}

std::vector<Problem> ProblemsOf(const Options& options, const std::string& text, Settings& settings,
                                const CheckSettings& check) {
  std::vector<Problem> problems;
  for (absl::Status& status : settings.Problems(text)) {
    problems.push_back({options.config_path, text, std::move(status)});
  }
  if (!problems.empty()) return problems;
  if (const absl::Status status = settings.Load(text); !status.ok()) {
    return {{options.config_path, text, status}};
  }
  if (const absl::Status status = settings.ApplyFlags(); !status.ok()) {
    return {{"flags", "", status}};
  }
  if (!options.check_config) return {};
  const std::string origin = options.config_path.empty() ? "flags" : options.config_path;
  for (const std::string& key : settings.IgnoredKeys()) Tell({origin, text, Ignored(key)});
  for (absl::Status& status : check()) {
    const bool elsewhere = absl::IsNotFound(status);
    Problem problem{origin, text, std::move(status)};
    if (elsewhere) Tell(problem);
    if (!elsewhere) problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace

ReadResult ReadSettings(int argc, char** argv, const std::string& description, Settings& settings,
                        const CheckSettings& check, const std::vector<OtherUse>& others) {
  Options options;
  if (const auto code = ParseFlags(argc, argv, description, others, settings, options)) {
    return {code};
  }
  absl::StatusOr<std::string> text = std::string();
  if (!options.config_path.empty()) text = ReadSmallFile(options.config_path);
  if (!text.ok()) return {Refuse({{options.config_path, "", text.status()}})};
  const std::vector<Problem> problems = ProblemsOf(options, *text, settings, check);
  if (!problems.empty()) return {Refuse(problems)};
  if (options.print_config) std::cout << settings.InForce(description) << std::flush;
  if (options.check_config) std::cout << "ok\n" << std::flush;
  if (options.print_config || options.check_config) return {std::cout ? 0 : kFailed};
  return {std::nullopt, options.config_path, *std::move(text)};
}

}  // namespace remesh::service
