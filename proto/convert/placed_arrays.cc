// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/placed_arrays.h"

#include <array>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "base/missing_field.h"

namespace remesh::proto {
namespace {

// Names of NumPy, PyTorch and safetensors that do not become XLA's by dropping letters.
constexpr std::array<std::array<std::string_view, 2>, 10> kOtherNames = {{{"half", "f16"},
                                                                          {"float", "f32"},
                                                                          {"double", "f64"},
                                                                          {"long", "s64"},
                                                                          {"int", "s32"},
                                                                          {"short", "s16"},
                                                                          {"char", "s8"},
                                                                          {"byte", "u8"},
                                                                          {"bool", "pred"},
                                                                          {"boolean", "pred"}}};

// "bfloat16" -> "bf16", "torch.float8_e4m3fn" -> "f8e4m3fn", "uint8" -> "u8", "I32" -> "s32".
std::string XlaName(const std::string& other) {
  std::string name = absl::AsciiStrToLower(other.substr(other.rfind('.') + 1));
  for (const auto& [theirs, ours] : kOtherNames) {
    if (name == theirs) return std::string(ours);
  }
  return absl::StrReplaceAll(name, {{"bfloat", "bf"},
                                    {"float", "f"},
                                    {"uint", "u"},
                                    {"int", "s"},
                                    {"complex", "c"},
                                    {"fp", "f"},
                                    {"i", "s"},
                                    {"_", ""}});
}

}  // namespace

absl::StatusOr<planner::ElementType> ElementTypeOf(const std::string& name) {
  absl::StatusOr<planner::ElementType> type = planner::ParseElementType(name);
  if (type.ok()) return type;
  constexpr char kExpectation[] = "must be an XLA element type such as bf16, f32 or s4";
  if (name.empty()) return MissingField("element_type", kExpectation);
  const std::string xla = name.size() > 64 ? "" : XlaName(name);
  if (!planner::ParseElementType(xla).ok()) return type;
  return InvalidField("element_type", name,
                      absl::StrCat(kExpectation, "; did you mean \"", xla, "\"?"));
}

}  // namespace remesh::proto
