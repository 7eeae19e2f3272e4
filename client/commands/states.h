// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl states list|get|create|delete|watch
void AddStates(CLI::App& app, Command& command);

}  // namespace remesh
