// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace remesh::client {

// Ends the help of every command below `app` with its two examples; that of a noun with one of each
// of its first two verbs. Call it when all commands are there.
void AddExamples(CLI::App& app);

// The first example of the command to which these words lead: "states get". "": it has none.
std::string ExampleOf(const std::string& path);

}  // namespace remesh::client
