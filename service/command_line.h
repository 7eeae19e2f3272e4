// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace remesh::service {

// The words of a command line as CLI::App::parse() takes them: without the program's name, the last
// one first. "--flag=" says that the flag is empty; CLI11 would take the next word for its value.
std::vector<std::string> WordsForCli(int argc, const char* const* argv);

}  // namespace remesh::service
