// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace remesh::worker {

// Copies `bits` bits from bit `source_bit` of `source` to bit `target_bit` of `target`; bit i is
// bit i%8 (low first) of byte i/8. Bytes that the run only partly covers may have other writers
// too, so they are read and updated atomically. Bytes outside the run are not touched.
// REQUIRES: bits >= 0; the two runs do not overlap.
void CopyBits(const std::byte* source, int64_t source_bit, std::byte* target, int64_t target_bit,
              int64_t bits);

}  // namespace remesh::worker
