// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// remeshctl suggest --source TEXT --target TEXT
void AddSuggest(CLI::App& app, Command& command);

}  // namespace remesh
