// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl layout: the boxes that each device holds
void AddLayout(CLI::App& app, Command& command);

}  // namespace remesh
