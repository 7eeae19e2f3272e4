// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace remesh::worker {

// memcpy() for what is not read again soon: past the cache where the processor can, so that the
// target's memory is not read in order to be overwritten, and what is in the cache stays. Other threads
// see the bytes only after FenceCopies(). REQUIRES: no overlap.
void CopyPastCache(std::byte* target, const std::byte* source, size_t bytes);

// Orders the copies of this thread before whatever it writes next.
void FenceCopies();

}  // namespace remesh::worker
