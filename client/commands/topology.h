// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl topology list|show|get: common machines, clusters of them, and what a server knows
void AddTopology(CLI::App& app, Command& command);

}  // namespace remesh
