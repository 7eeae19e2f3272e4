// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace remesh::client {

// What the commands that take --write say about it below their flags.
inline constexpr char kHelpOfWrites[] =
    "A write: a state that is on several hosts is READY again once every host has sealed the same "
    "write.\n"
    "If a trainer dies half-way, the state stays BUILDING (\"write 7 on host-0, 6 on host-1\") "
    "until\n"
    "every host has sealed one later write, or until the state is deleted. The content of write 6 "
    "is\n"
    "gone: keep a checkpoint, or write into a new state.";

// --write NAME.
void AddWriteFlag(CLI::App& app, std::string& write);

}  // namespace remesh::client
