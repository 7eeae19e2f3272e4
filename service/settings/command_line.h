// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// Explains the first word that `app`, which has parsed, does not know, and suggests a similar one:
// "unknown flag --sever; did you mean --server?". "" when it knows every word. `elsewhere`: flags
// that are taken out before `app` sees them.
std::string UnknownWord(const CLI::App& app, const std::vector<std::string>& elsewhere = {});

// Ends a command line that parse() refused with `error`: prints help or version to stdout and
// returns 0, or explains the error on stderr and returns 2, the code of a usage error.
int EndUsage(std::string_view program, const CLI::App& app, const CLI::ParseError& error,
             const std::vector<std::string>& elsewhere = {});

}  // namespace remesh::service
