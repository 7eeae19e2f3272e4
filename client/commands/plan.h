// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl plan: plans a spec, in process or on a server
void AddPlan(CLI::App& app, Command& command);

}  // namespace remesh
