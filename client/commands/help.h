// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// `help [COMMAND...]`, as --help behind it.
void AddHelp(CLI::App& app, Command& command);
// `version`, as --version.
void AddVersion(CLI::App& app, Command& command);

}  // namespace remesh
