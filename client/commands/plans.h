// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl plans list|get|delete|pin|unpin|stats
void AddPlans(CLI::App& app, Command& command);

}  // namespace remesh
