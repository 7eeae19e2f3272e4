// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::server {

// Bytes that this thread has taken from the heap less those that it has given back, whoever took
// them: the difference of two calls is what a piece of work on one thread holds. 0 where a
// sanitizer owns the heap.
int64_t HeapBytesOfThread();

}  // namespace remesh::server
