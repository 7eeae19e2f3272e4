// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace remesh {

// Asks the kernel to back what lies in [begin, begin + bytes) with huge pages once it is touched: a
// gigabyte is then 512 pages to fault in and to give back instead of 262,144, which takes a tenth of
// a second either way. Only a hint, and only for memory of several megabytes; without Linux nothing
// happens. For any thread.
void AskForHugePages(const void* begin, size_t bytes);

}  // namespace remesh
