// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh {

// a / b, rounded up. REQUIRES: a >= 0, b > 0. Does not overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// The least number of whole bytes that holds `bits` bits.
constexpr int64_t BytesOfBits(int64_t bits) { return CeilDiv(bits, 8); }

}  // namespace remesh
