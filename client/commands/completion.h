// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh {

// `completion bash|zsh|fish`: a script for the shell, of the commands that `app` has by then.
void AddCompletion(CLI::App& app, Command& command);

}  // namespace remesh
