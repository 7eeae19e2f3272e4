// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl sharding: the canonical text of a sharding
void AddSharding(CLI::App& app, Command& command);

}  // namespace remesh
