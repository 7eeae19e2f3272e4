// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/type_names.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/text/nearest.h"

namespace remesh::proto {
namespace {

struct Alias {
  std::string_view theirs;  // in lower case
  std::string_view xla;
};

// Who gives a name another meaning than those before it stands under its prefix: "np.byte".
constexpr Alias kAliases[] = {
    // XLA.
    {"pred", "pred"},
    {"s1", "s1"},
    {"s2", "s2"},
    {"s4", "s4"},
    {"s8", "s8"},
    {"s16", "s16"},
    {"s32", "s32"},
    {"s64", "s64"},
    {"u1", "u1"},
    {"u2", "u2"},
    {"u4", "u4"},
    {"u8", "u8"},
    {"u16", "u16"},
    {"u32", "u32"},
    {"u64", "u64"},
    {"f16", "f16"},
    {"bf16", "bf16"},
    {"f32", "f32"},
    {"f64", "f64"},
    {"c64", "c64"},
    {"c128", "c128"},
    {"f4e2m1fn", "f4e2m1fn"},
    {"f6e2m3fn", "f6e2m3fn"},
    {"f6e3m2fn", "f6e3m2fn"},
    {"f8e3m4", "f8e3m4"},
    {"f8e4m3", "f8e4m3"},
    {"f8e4m3fn", "f8e4m3fn"},
    {"f8e4m3fnuz", "f8e4m3fnuz"},
    {"f8e4m3b11fnuz", "f8e4m3b11fnuz"},
    {"f8e5m2", "f8e5m2"},
    {"f8e5m2fnuz", "f8e5m2fnuz"},
    {"f8e8m0fnu", "f8e8m0fnu"},
    // safetensors. Its F8_E4M3 is the finite one.
    {"i8", "s8"},
    {"i16", "s16"},
    {"i32", "s32"},
    {"i64", "s64"},
    {"f4", "f4e2m1fn"},
    {"f6_e2m3", "f6e2m3fn"},
    {"f6_e3m2", "f6e3m2fn"},
    {"f8_e4m3", "f8e4m3fn"},
    {"f8_e5m2", "f8e5m2"},
    {"f8_e8m0", "f8e8m0fnu"},
    {"f8_e4m3fnuz", "f8e4m3fnuz"},
    {"f8_e5m2fnuz", "f8e5m2fnuz"},
    // NumPy and JAX, with ml_dtypes.
    {"bool", "pred"},
    {"bool_", "pred"},
    {"int1", "s1"},
    {"int2", "s2"},
    {"int4", "s4"},
    {"int8", "s8"},
    {"int16", "s16"},
    {"int32", "s32"},
    {"int64", "s64"},
    {"uint1", "u1"},
    {"uint2", "u2"},
    {"uint4", "u4"},
    {"uint8", "u8"},
    {"uint16", "u16"},
    {"uint32", "u32"},
    {"uint64", "u64"},
    {"float16", "f16"},
    {"bfloat16", "bf16"},
    {"float32", "f32"},
    {"float64", "f64"},
    {"complex64", "c64"},
    {"complex128", "c128"},
    {"single", "f32"},
    {"float4_e2m1fn", "f4e2m1fn"},
    {"float6_e2m3fn", "f6e2m3fn"},
    {"float6_e3m2fn", "f6e3m2fn"},
    {"float8_e3m4", "f8e3m4"},
    {"float8_e4m3", "f8e4m3"},
    {"float8_e4m3fn", "f8e4m3fn"},
    {"float8_e4m3fnuz", "f8e4m3fnuz"},
    {"float8_e4m3b11fnuz", "f8e4m3b11fnuz"},
    {"float8_e5m2", "f8e5m2"},
    {"float8_e5m2fnuz", "f8e5m2fnuz"},
    {"float8_e8m0fnu", "f8e8m0fnu"},
    {"np.byte", "s8"},
    {"numpy.byte", "s8"},
    {"np.float", "f64"},
    {"np.int_", "s64"},
    {"ubyte", "u8"},
    {"ushort", "u16"},
    {"uintc", "u32"},
    {"intc", "s32"},
    {"longlong", "s64"},
    {"ulonglong", "u64"},
    // NumPy's codes.
    {"<f2", "f16"},
    {"<f4", "f32"},
    {"<f8", "f64"},
    {"<i2", "s16"},
    {"<i4", "s32"},
    {"<i8", "s64"},
    {"<u2", "u16"},
    {"<u4", "u32"},
    {"<u8", "u64"},
    {"|i1", "s8"},
    {"|u1", "u8"},
    {"|b1", "pred"},
    {"<c8", "c64"},
    {"<c16", "c128"},
    {"<v2", "bf16"},
    {"|v2", "bf16"},
    {"v2", "bf16"},
    // PyTorch.
    {"half", "f16"},
    {"float", "f32"},
    {"double", "f64"},
    {"long", "s64"},
    {"int", "s32"},
    {"short", "s16"},
    {"char", "s8"},
    {"byte", "u8"},
    {"boolean", "pred"},
    {"cfloat", "c64"},
    {"cdouble", "c128"},
    {"float4_e2m1fn_x2", "f4e2m1fn"},
    // Names that people use.
    {"fp4", "f4e2m1fn"},
    {"fp8", "f8e4m3fn"},
    {"fp16", "f16"},
    {"fp32", "f32"},
    {"fp64", "f64"},
    {"e4m3", "f8e4m3fn"},
    {"e5m2", "f8e5m2"},
    {"e8m0", "f8e8m0fnu"},
};

std::string Find(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (alias.theirs == name) return std::string(alias.xla);
  }
  return "";
}

// "dtype('float32')" and "<class 'numpy.float32'>" -> "float32"; others unchanged, in lower case.
std::string Unwrapped(std::string_view name) {
  std::string lower = absl::AsciiStrToLower(absl::string_view(name.data(), name.size()));
  const std::vector<std::string> parts = absl::StrSplit(lower, absl::ByAnyChar("'\""));
  return parts.size() == 3 ? parts[1] : lower;
}

}  // namespace

std::string NearestXlaType(std::string_view name) {
  constexpr size_t kNameMax = 64;
  if (name.empty() || name.size() > kNameMax) return "";
  const std::string whole = Unwrapped(name);
  if (std::string xla = Find(whole); !xla.empty()) return xla;
  const std::string last = whole.substr(whole.rfind('.') + 1);
  if (std::string xla = Find(last); !xla.empty()) return xla;
  std::vector<std::string> names;
  for (const Alias& alias : kAliases) names.emplace_back(alias.theirs);
  return Find(Nearest(last, names));
}

}  // namespace remesh::proto
