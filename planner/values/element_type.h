// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace remesh::planner {

// An element type of XLA, by the numbers of xla.PrimitiveType. Only array types: no TUPLE,
// OPAQUE_TYPE, TOKEN, BUFFER.
enum class ElementType : int32_t {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBf16 = 16,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3Fn = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11Fnuz = 23,
  kF8E5M2Fnuz = 24,
  kF8E4M3Fnuz = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1Fn = 32,
  kF8E8M0Fnu = 33,
  kF6E2M3Fn = 36,
  kF6E3M2Fn = 35,
};

// Size of one element in bits: 1, 2, 4, 8, 16, 32, 64 or 128. Elements below 8 bits lie packed, low
// bits of a byte first; the 6-bit floats take a whole byte, as XLA stores them.
int BitWidth(ElementType type);

// XLA's lower-case name: "bf16", "f8e4m3fn", "s4", "pred" ...
std::string_view Name(ElementType type);

// The names of all types, in the order of their kinds and sizes.
std::vector<std::string> ElementTypeNames();

// The type of an XLA name. INVALID_ARGUMENT (field "element_type") for anything else.
absl::StatusOr<ElementType> ParseElementType(std::string_view name);

}  // namespace remesh::planner
