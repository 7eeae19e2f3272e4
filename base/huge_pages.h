// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace remesh {

// Asks the kernel to back [begin, begin + bytes) with huge pages once it is touched. A gigabyte is
// then 512 pages instead of 262,144, which take a tenth of a second to fault in and as long to give
// back. Only a hint, and only for memory of several megabytes. Does nothing on systems other than
// Linux. Thread-safe.
void AskForHugePages(const void* begin, size_t bytes);

}  // namespace remesh
