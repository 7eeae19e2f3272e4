// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/type_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "proto/convert/placed_arrays.h"

namespace remesh::proto {
namespace {

TEST(TypeNamesTest, EveryFrameworksNameLeadsToXlas) {
  const struct {
    const char* theirs;
    const char* xla;
  } names[] = {
      {"F8_E4M3", "f8e4m3fn"},
      {"F8_E5M2", "f8e5m2"},
      {"F8_E8M0", "f8e8m0fnu"},
      {"F4", "f4e2m1fn"},
      {"F6_E2M3", "f6e2m3fn"},
      {"BF16", "bf16"},
      {"I64", "s64"},
      {"BOOL", "pred"},
      {"np.float32", "f32"},
      {"numpy.int8", "s8"},
      {"np.byte", "s8"},
      {"dtype('float32')", "f32"},
      {"<class 'jax.numpy.bfloat16'>", "bf16"},
      {"<f4", "f32"},
      {"|V2", "bf16"},
      {"jnp.float8_e4m3fn", "f8e4m3fn"},
      {"bfloat16", "bf16"},
      {"torch.bfloat16", "bf16"},
      {"torch.float8_e5m2", "f8e5m2"},
      {"torch.half", "f16"},
      {"torch.byte", "u8"},
      {"torch.float4_e2m1fn_x2", "f4e2m1fn"},
      {"fp32", "f32"},
  };
  for (const auto& name : names) {
    EXPECT_EQ(NearestXlaType(name.theirs), name.xla) << name.theirs;
    EXPECT_NE(std::string(ElementTypeOf(name.theirs).status().message())
                  .find(absl::StrCat("did you mean \"", name.xla, "\"?")),
              std::string::npos)
        << name.theirs;
  }
}

TEST(TypeNamesTest, TyposLeadToTheNearest) {
  EXPECT_EQ(NearestXlaType("bfloat6"), "bf16");
  EXPECT_EQ(NearestXlaType("flaot32"), "f32");
  EXPECT_EQ(NearestXlaType("f8e4m3fm"), "f8e4m3fn");
  EXPECT_EQ(NearestXlaType("utf-8 string"), "");
  EXPECT_EQ(NearestXlaType(""), "");
}

}  // namespace
}  // namespace remesh::proto
