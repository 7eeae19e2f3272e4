// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl demo: a server, four workers and four trainers on this machine move Llama-3.2-1B.
void AddDemo(CLI::App& app, Command& command);

}  // namespace remesh
