// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl reshard: starts an execution and, unless told otherwise, waits for its end.
void AddReshard(CLI::App& app, Command& command);

}  // namespace remesh
