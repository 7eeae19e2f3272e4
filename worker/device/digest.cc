// SPDX-License-Identifier: Apache-2.0
#include "worker/device/digest.h"

// For the size of XXH3's state.
#define XXH_STATIC_LINKING_ONLY
#include "xxhash.h"
// XXH3 with the widest vectors that the processor has; the library's default functions use only
// SSE2.
#if defined(__x86_64__)
#include "xxh_x86dispatch.h"
#endif

namespace remesh::worker {

uint64_t DigestPacked(std::span<const std::byte> packed) {
  return XXH3_64bits(packed.data(), packed.size());
}

uint64_t DigestRuns(std::span<const std::span<const std::byte>> runs) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (const auto run : runs) XXH3_64bits_update(&state, run.data(), run.size());
  return XXH3_64bits_digest(&state);
}

}  // namespace remesh::worker
