// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "service/settings.h"

namespace remesh {

// The start of a main(): reads --config FILE, then flags, into `settings`. Returns the code to exit
// with when the program shall end: 0 after --help, --version and --print-config (InForce() of what
// file and flags set); 2 after a usage error or a bad file, with the reason on stderr.
std::optional<int> ReadSettings(int argc, char** argv, const std::string& description,
                                Settings& settings);

}  // namespace remesh
