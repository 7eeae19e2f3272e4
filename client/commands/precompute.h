// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl plans precompute: plans what may happen next.
void AddPrecompute(CLI::App& plans, Command& command);

}  // namespace remesh
