// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace remesh::worker {

// The digest of a chunk: XXH3-64 (seed 0) of its packed bits.
uint64_t DigestPacked(std::span<const std::byte> packed);

}  // namespace remesh::worker
