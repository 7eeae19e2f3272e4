// SPDX-License-Identifier: Apache-2.0
#include "worker/device/digest.h"

#include "xxhash.h"
// XXH3 with the widest vectors that the processor has: the library's own functions use SSE2 alone.
#if defined(__x86_64__)
#include "xxh_x86dispatch.h"
#endif

namespace remesh::worker {

uint64_t DigestPacked(std::span<const std::byte> packed) {
  return XXH3_64bits(packed.data(), packed.size());
}

}  // namespace remesh::worker
