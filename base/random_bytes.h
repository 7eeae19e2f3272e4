// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remesh {

// From the kernel: nobody guesses them. REQUIRES: count <= 256.
std::string RandomBytes(size_t count);

}  // namespace remesh
