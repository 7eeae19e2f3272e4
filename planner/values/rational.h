// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh::planner {

// An exact non-negative fraction, den > 0: a time in bits per (byte per second). Multiplied by a
// capacity it gives bits.
struct Rational {
  int64_t num = 0;
  int64_t den = 1;

  double value() const { return static_cast<double>(num) / static_cast<double>(den); }
  double seconds() const { return value() / 8; }
  // ceil(this * factor), but at most kMost. kMost is as good as infinity, because sums of bits of a
  // valid request stay below it (kHeldBitsMax in request.h). REQUIRES: factor >= 0.
  static constexpr int64_t kMost = int64_t{1} << 62;
  int64_t CeilTimes(int64_t factor) const {
    const __int128 times = (static_cast<__int128>(num) * factor + den - 1) / den;
    return times < kMost ? static_cast<int64_t>(times) : kMost;
  }
  friend bool operator<(const Rational& a, const Rational& b) {
    return static_cast<__int128>(a.num) * b.den < static_cast<__int128>(b.num) * a.den;
  }
  friend bool operator==(const Rational& a, const Rational& b) { return !(a < b) && !(b < a); }
};

// floor(a * b / c), with a 128-bit product. REQUIRES: a, b >= 0, c > 0, the result fits.
inline int64_t MulDiv(int64_t a, int64_t b, int64_t c) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product / c;  // a fraction of the time
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

}  // namespace remesh::planner
