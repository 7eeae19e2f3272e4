// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/nearest.h"
#include "client/commands/commands.h"
#include "service/process/version.h"
#include "service/settings/command_line.h"

namespace remesh::client {
namespace {

// What to write in place of `word`, before which `before` stands.
std::string Instead(const std::string& word, const CLI::App& app, const std::string& before) {
  const std::vector<std::string> commands = service::CommandsOf(app);
  const std::string nearest = DidYouMean(word, commands);
  if (!nearest.empty()) return nearest;
  if (commands.empty()) return absl::StrCat("; did you mean \"", before, "\"?");
  return absl::StrCat("; it is one of ", absl::StrJoin(commands, ", "));
}

// Throws a usage error, as CLI11 does for other words that it does not know.
const CLI::App* FindCommand(const CLI::App* app, const std::vector<std::string>& words) {
  std::string before = "remeshctl help";
  for (const std::string& word : words) {
    try {
      app = app->get_subcommand(word);
    } catch (const CLI::OptionNotFound&) {
      throw CLI::ValidationError(absl::StrCat("\"", absl::StrJoin(words, " "),
                                              "\" is not a command", Instead(word, *app, before)));
    }
    absl::StrAppend(&before, " ", word);
  }
  return app;
}

absl::Status Help(const CLI::App* app) {
  std::string before;
  for (const CLI::App* parent = app->get_parent(); parent != nullptr;
       parent = parent->get_parent()) {
    before = absl::StrCat(parent->get_name(), before.empty() ? "" : " ", before);
  }
  // The root would show the help of the command that was parsed, which is this one.
  std::cout << app->get_formatter()->make_help(
      app, absl::StrCat(before, before.empty() ? "" : " ", app->get_name()),
      CLI::AppFormatMode::Normal);
  return absl::OkStatus();
}

}  // namespace

void AddHelp(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("help", "Show the help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  sub->add_option("COMMAND", *words, "As in: help plans get");
  sub->callback([&command, &app, words] {
    const CLI::App* const named = FindCommand(&app, *words);
    command = [named] { return Help(named); };
  });
}

void AddVersion(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand("version", "Show the version");
  sub->callback([&command] {
    command = [] {
      std::cout << service::kVersion << "\n";
      return absl::OkStatus();
    };
  });
}

}  // namespace remesh::client
