// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::server {

// Bytes that this thread has allocated from the heap minus those that it has freed, whichever
// thread allocated them. The difference of two calls is what the work between them on one thread
// holds. 0 where a sanitizer owns the heap.
int64_t HeapBytesOfThread();

}  // namespace remesh::server
