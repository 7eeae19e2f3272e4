// SPDX-License-Identifier: Apache-2.0
#include "service/settings/command_line.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/text/nearest.h"

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

// "states list", for the innermost command on the command line.
std::string PathOf(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) return "";
  const std::string before = PathOf(*parent);
  return absl::StrCat(before, before.empty() ? "" : " ", app.get_name());
}

std::string UnknownCommand(const std::string& word, const CLI::App& app, const UsageHints& hints) {
  const std::vector<std::string> commands = CommandsOf(app);
  std::string next = DidYouMean(word, commands);
  const auto note = hints.notes.find(absl::StrCat(PathOf(app), " ", word));
  if (note != hints.notes.end()) next = absl::StrCat("; ", note->second);
  const auto instead = hints.instead.find(word);
  const bool is_root = app.get_parent() == nullptr;
  if (is_root && instead != hints.instead.end())
    next = absl::StrCat("; did you mean \"", instead->second, "\"?");
  if (next.empty()) next = absl::StrCat("; it is one of ", absl::StrJoin(commands, ", "));
  return absl::StrCat("\"", word, "\" is not a command", next);
}

// Whether the command has the flag with which `text` begins: "--output" of "--output json".
bool HasFlagOf(std::string_view text, const std::vector<std::string>& long_flags) {
  const std::string flag = WithoutDashes(text.substr(0, text.find(' ')));
  return std::find(long_flags.begin(), long_flags.end(), flag) != long_flags.end();
}

// The note on the flag for this command, or else for all; "" if there is none.
std::string NoteOn(const std::string& flag, const CLI::App& app, const UsageHints& hints) {
  for (const std::string& words : {absl::StrCat(app.get_name(), " ", flag), flag}) {
    const auto note = hints.notes.find(words);
    if (note != hints.notes.end()) return note->second;
  }
  return "";
}

std::string NeedsValue(const std::string& flag, const UsageHints& hints) {
  const auto value = hints.values.find(flag);
  return absl::StrCat(flag, " needs a value",
                      value == hints.values.end() ? "" : ": " + value->second);
}

std::string UnknownFlag(const std::string& flag, const CLI::App& app, bool before_command,
                        const UsageHints& hints) {
  std::vector<std::string> names = LongFlagsOf(app);
  for (const std::string& other : hints.elsewhere) names.push_back(WithoutDashes(other));
  const auto instead = hints.instead.find(flag);
  if (instead != hints.instead.end() && HasFlagOf(instead->second, names))
    return absl::StrCat("unknown flag ", flag, "; did you mean ", instead->second, "?");
  const std::string note = NoteOn(flag, app, hints);
  if (!note.empty() && !HasFlagOf(flag, names))
    return absl::StrCat("unknown flag ", flag, "; ", note);
  const std::string nearest = Nearest(WithoutDashes(flag), names);
  if (flag == absl::StrCat("--", nearest)) return NeedsValue(flag, hints);
  std::string hint = "; --help lists them";
  if (before_command) hint = " before the command; put flags after the command";
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

std::string UnknownWord(const CLI::App& app, const UsageHints& hints) {
  const std::vector<std::string> left = app.remaining();
  if (left.empty()) {
    for (const CLI::App* parsed : app.get_subcommands()) {
      const std::string problem = UnknownWord(*parsed, hints);
      if (!problem.empty()) return problem;
    }
    return "";
  }
  const std::string& word = left.front();
  const bool has_commands = !CommandsOf(app).empty();
  if (IsFlag(word)) return UnknownFlag(word.substr(0, word.find('=')), app, has_commands, hints);
  if (has_commands) return UnknownCommand(word, app, hints);
  return absl::StrCat("\"", word, "\" is an unexpected argument");
}

namespace {

// The innermost command on the command line.
const CLI::App& Named(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() || parsed.front()->get_name().empty() ? app : Named(*parsed.front());
}

bool IsRequired(const CLI::ParseError& error) {
  return error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
}

std::string NotTogether(const std::string& flags) {
  return absl::StrCat(flags, " cannot be used together: give only one");
}

// What a flag's value is: its choices, or else what its help says.
std::string ValueOf(const CLI::App& app, const std::string& flag) {
  const CLI::Option* option = app.get_option_no_throw(flag);
  if (option == nullptr) return "";
  const std::string type = option->get_type_name();
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos)
    return absl::StrCat(": ", option->get_description());
  const std::string choices = type.substr(open + 1, close - open - 1);
  return absl::StrCat(", one of ", absl::StrReplaceAll(choices, {{",", ", "}}));
}

// What CLI11 says, but for two flags of which it says "--full excludes --view", and for a flag
// without its value, of which it says "1 required TEXT missing".
std::string ErrorText(const CLI::App& app, const CLI::ParseError& error, const UsageHints& hints) {
  const std::string what = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExcludesError))
    return NotTogether(absl::StrReplaceAll(what, {{" excludes ", " and "}}));
  const bool of_flag = what.starts_with("-") && what.find(':') != what.npos;
  const bool no_value =
      of_flag && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch);
  if (!no_value) return what;
  const std::string flag = what.substr(0, what.find(':'));
  if (hints.values.contains(flag)) return NeedsValue(flag, hints);
  return absl::StrCat(flag, " needs a value", ValueOf(app, flag));
}

// What is wrong with a group of which exactly one option must be given; "": nothing.
std::string GroupProblem(const CLI::App& app) {
  const auto nameless = [](const CLI::App* sub) { return sub->get_name().empty(); };
  for (const CLI::App* group : app.get_subcommands(nameless)) {
    if (group->get_require_option_min() != 1) continue;
    std::vector<std::string> all, given;
    for (const CLI::Option* option : group->get_options()) {
      if (option == group->get_help_ptr()) continue;
      const std::string name = "--" + option->get_lnames().front();
      all.push_back(name);
      if (option->count() > 0) given.push_back(name);
    }
    if (given.empty()) return absl::StrCat(absl::StrJoin(all, " or "), " is required");
    if (given.size() > 1) return NotTogether(absl::StrJoin(given, " and "));
  }
  return "";
}

// The text of a usage error: ours if CLI11's does not help.
std::string Problem(const CLI::App& app, const CLI::ParseError& error, const UsageHints& hints) {
  const std::string unknown = UnknownWord(app, hints);
  if (!unknown.empty()) return unknown;
  const CLI::App& named = Named(app);
  const std::vector<std::string> commands = CommandsOf(named);
  const std::string of_group = GroupProblem(named);
  if (commands.empty() && !of_group.empty() && IsRequired(error)) return of_group;
  const bool says_more = hints.example != nullptr;
  if (commands.empty())
    return absl::StrCat(ErrorText(named, error, hints),
                        says_more ? "" : "\nRun with --help for more information.");
  return absl::StrCat(&named == &app ? "" : named.get_name() + ": ",
                      "no command given; commands: ", absl::StrJoin(commands, ", "));
}

// Where to look: an example of the command, and its help. "" for a program without examples.
std::string SeeAlso(const std::string& program, const CLI::App& app, const UsageHints& hints) {
  if (hints.example == nullptr) return "";
  const std::string path = PathOf(Named(app));
  const std::string command = absl::StrCat(program, path.empty() ? "" : " ", path);
  const std::string example = hints.example(path);
  return absl::StrCat(example.empty() ? "" : absl::StrCat("  example: ", example, "\n"),
                      "  help: ", command, " --help\n");
}

}  // namespace

int EndUsage(std::string_view program, const CLI::App& app, const CLI::ParseError& error,
             const UsageHints& hints) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::cerr << program << ": " << Problem(app, error, hints) << "\n"
            << SeeAlso(std::string(program), app, hints);
  return kUsage;
}

}  // namespace remesh::service
