// SPDX-License-Identifier: Apache-2.0
#include "planner/values/element_type.h"

#include <array>

#include "base/check.h"
#include "base/error.h"

namespace remesh::planner {
namespace {

struct TypeRow {
  ElementType type;
  std::string_view name;
  int bits;
};

constexpr TypeRow kTypes[] = {
    {ElementType::kPred, "pred", 8},
    {ElementType::kS1, "s1", 1},
    {ElementType::kS2, "s2", 2},
    {ElementType::kS4, "s4", 4},
    {ElementType::kS8, "s8", 8},
    {ElementType::kS16, "s16", 16},
    {ElementType::kS32, "s32", 32},
    {ElementType::kS64, "s64", 64},
    {ElementType::kU1, "u1", 1},
    {ElementType::kU2, "u2", 2},
    {ElementType::kU4, "u4", 4},
    {ElementType::kU8, "u8", 8},
    {ElementType::kU16, "u16", 16},
    {ElementType::kU32, "u32", 32},
    {ElementType::kU64, "u64", 64},
    {ElementType::kF4E2M1Fn, "f4e2m1fn", 4},
    {ElementType::kF6E2M3Fn, "f6e2m3fn", 8},
    {ElementType::kF6E3M2Fn, "f6e3m2fn", 8},
    {ElementType::kF8E3M4, "f8e3m4", 8},
    {ElementType::kF8E4M3, "f8e4m3", 8},
    {ElementType::kF8E4M3B11Fnuz, "f8e4m3b11fnuz", 8},
    {ElementType::kF8E4M3Fn, "f8e4m3fn", 8},
    {ElementType::kF8E4M3Fnuz, "f8e4m3fnuz", 8},
    {ElementType::kF8E5M2, "f8e5m2", 8},
    {ElementType::kF8E5M2Fnuz, "f8e5m2fnuz", 8},
    {ElementType::kF8E8M0Fnu, "f8e8m0fnu", 8},
    {ElementType::kF16, "f16", 16},
    {ElementType::kBf16, "bf16", 16},
    {ElementType::kF32, "f32", 32},
    {ElementType::kF64, "f64", 64},
    {ElementType::kC64, "c64", 64},
    {ElementType::kC128, "c128", 128},
};

// Rows by the number of the type; nullptr where there is no type.
constexpr auto kRowOf = [] {
  std::array<const TypeRow*, 64> rows = {};
  for (const TypeRow& row : kTypes) rows[static_cast<size_t>(row.type)] = &row;
  return rows;
}();

const TypeRow& Row(ElementType type) {
  const size_t number = static_cast<size_t>(type);
  REMESH_CHECK(number < kRowOf.size() && kRowOf[number] != nullptr);
  return *kRowOf[number];
}

}  // namespace

int BitWidth(ElementType type) { return Row(type).bits; }

std::string_view Name(ElementType type) { return Row(type).name; }

std::vector<std::string> ElementTypeNames() {
  std::vector<std::string> names;
  for (const TypeRow& row : kTypes) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<ElementType> ParseElementType(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return InvalidField("element_type", name, "must be an XLA element type such as bf16, f32 or s4");
}

}  // namespace remesh::planner
