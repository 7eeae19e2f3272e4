// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl executions list|get|watch|cancel
void AddExecutions(CLI::App& app, Command& command);

}  // namespace remesh
