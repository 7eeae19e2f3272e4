// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl get: this host's shards, from the worker's buffers into files of whole arrays.
void AddGet(CLI::App& app, Command& command);

}  // namespace remesh
