// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remesh {

// Unpredictable bytes from the kernel. REQUIRES: count <= 256.
std::string RandomBytes(size_t count);

}  // namespace remesh
