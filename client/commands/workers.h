// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl workers list|get|forget
void AddWorkers(CLI::App& app, Command& command);

}  // namespace remesh
