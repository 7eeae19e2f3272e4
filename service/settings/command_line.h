// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"

namespace remesh::service {

// The arguments of a command line in the form that CLI::App::parse() takes: without the program's
// name, in reverse order. Marks the flag of "--flag=" as empty; CLI11 would take the next word for
// its value.
std::vector<std::string> WordsForCli(int argc, const char* const* argv);

// Names of the commands below `app`.
std::vector<std::string> CommandsOf(const CLI::App& app);

// What a program knows of its command line beyond what CLI::App does.
struct UsageHints {
  std::vector<std::string> elsewhere = {};  // flags that are taken out before the app sees them
  // What to write instead of words that other programs take. "move" -> "reshard": for the program's
  // first word; "--address" -> "--server": where the command has the second flag.
  std::map<std::string, std::string> instead = {};
  // What to say of flags that the command does not have, and of commands that do not exist, by all
  // their words.
  std::map<std::string, std::string> notes = {};
  // What the value of a flag is, where its help does not say it as a part of a sentence.
  std::map<std::string, std::string> values = {};
  // Example of a command, by the words that lead to it; "" if there is none. May be null.
  std::function<std::string(const std::string& path)> example = nullptr;
};

// Explains the first word that `app`, which has parsed, does not know, and suggests a similar one:
// "unknown flag --sever; did you mean --server?". "" when it knows every word.
std::string UnknownWord(const CLI::App& app, const UsageHints& hints = {});

// Ends a command line that parse() refused with `error`: prints help or version to stdout and
// returns 0, or explains the error on stderr and returns 2, the code of a usage error.
int EndUsage(std::string_view program, const CLI::App& app, const CLI::ParseError& error,
             const UsageHints& hints = {});

}  // namespace remesh::service
