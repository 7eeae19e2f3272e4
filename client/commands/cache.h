// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CLI/CLI.hpp"
#include "client/commands/command.h"

namespace remesh {

// remeshctl cache: the plan cache as a whole.
void AddCache(CLI::App& app, Command& command);

}  // namespace remesh
