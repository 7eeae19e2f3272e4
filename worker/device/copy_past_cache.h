// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace remesh::worker {

// memcpy() for bytes that are not read again soon. Where the processor can, it writes past the
// cache: the processor then does not read the target's memory before overwriting it, and the cache
// keeps its content. Other threads see the bytes only after FenceCopies(). REQUIRES: no overlap.
void CopyPastCache(std::byte* target, const std::byte* source, size_t bytes);

// Orders the copies of this thread before its later writes.
void FenceCopies();

}  // namespace remesh::worker
