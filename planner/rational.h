// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace remesh {

// An exact non-negative fraction, den > 0: a time in bits per (byte per second), so that times
// capacity gives bits.
struct Rational {
  int64_t num = 0;
  int64_t den = 1;

  double value() const { return static_cast<double>(num) / static_cast<double>(den); }
  double seconds() const { return value() / 8; }
  // ceil(this * factor).
  int64_t CeilTimes(int64_t factor) const {
    const __int128 product = static_cast<__int128>(num) * factor;
    return static_cast<int64_t>((product + den - 1) / den);
  }
  friend bool operator<(const Rational& a, const Rational& b) {
    return static_cast<__int128>(a.num) * b.den < static_cast<__int128>(b.num) * a.den;
  }
  friend bool operator==(const Rational& a, const Rational& b) { return !(a < b) && !(b < a); }
};

// floor(a * b / c) without overflow in between. REQUIRES: a, b >= 0, c > 0, the result fits.
inline int64_t MulDiv(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

}  // namespace remesh
