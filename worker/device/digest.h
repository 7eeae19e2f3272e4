// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace remesh::worker {

// The digest of a chunk: XXH3-64 (seed 0) of its packed bits.
uint64_t DigestPacked(std::span<const std::byte> packed);

// Like DigestPacked(), where the packed bits lie in several runs, one after the other.
uint64_t DigestRuns(std::span<const std::span<const std::byte>> runs);

}  // namespace remesh::worker
