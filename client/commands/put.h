// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl put: this host's shards, from files of whole arrays into the worker's buffers.
void AddPut(CLI::App& app, Command& command);

}  // namespace remesh
