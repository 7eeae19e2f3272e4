// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/hlo_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::planner {
namespace {

using ::testing::HasSubstr;

std::string Canonical(std::string_view text) {
  const auto sharding = ParseHloSharding(text);
  return sharding.ok() ? PrintHloSharding(*sharding) : std::string(sharding.status().message());
}

TEST(HloTextTest, CanonicalTexts) {
  constexpr const char* kTexts[][2] = {
      {"{ device=3 maximal }", "{maximal device=3}"},
      {"{devices=[3,4,5]<=[1,3,4,5]T(3,0,1,2)}", "{devices=[3,4,5]<=[12,5]T(1,0)}"},
      {"{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}",
       "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}"},
      {"{devices=[2,2,1]<=[4] last_tile_dim_replicate}", "{devices=[2,2]<=[4]}"},
      {"{devices=[1,1,4]<=[4] last_tile_dim_replicate}", "{replicated}"},
      {"{devices=[1,4]<=[4] last_tile_dims={manual}}", "{manual}"},
      {"{devices=[1,1]<=[1] last_tile_dims={unreduced,manual}}", "{replicated}"},
      {"{devices=[1]<=[1] last_tile_dims={maximal}}", "{replicated}"},
      {"{devices=[2,2,2]<=[8] last_tile_dims={unreduced,manual}}",
       "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, unreduced}}"},
      {"{devices=[2,2,2]<=[8] last_tile_dims={manual,manual}}",
       "{devices=[2,4]<=[8] last_tile_dims={manual}}"},
      {"{replicated metadata={{op_name=\"a\" source_line=3},{op_type=\"b\" profile={x=1}}} "
       "shard_as 4}",
       "{replicated shard_as 4}"},
      {"{{replicated},/*index=1*/{manual}}", "{{replicated}, {manual}}"},
      {"{mesh['a'=2,'b'=4], [{'b':(1)2,'b':(2)2}]}", "{mesh['a'=2,'b'=4], [{'b'}]}"},
      {"{mesh['a'=2,'b'=4], [{}], manual={'b'}, unreduced=max{'a'}}",
       "{mesh['a'=2,'b'=4], [{}], unreduced=max{'a'}, manual={'b'}}"},
  };
  for (const auto& [text, canonical] : kTexts) {
    EXPECT_EQ(Canonical(text), canonical);
    EXPECT_EQ(Canonical(canonical), canonical);
  }
}

TEST(HloTextTest, NamedShardingsOfTheWholeMeshPrintWithoutIt) {
  EXPECT_EQ(Canonical("{mesh['a'=2,'b'=4], replicated}"), "{replicated}");
  EXPECT_EQ(Canonical("{mesh['a'=2,'b'=4], []}"), "{replicated}");
  EXPECT_EQ(Canonical("{mesh['a'=2,'b'=4], unreduced}"), "{unreduced}");
  EXPECT_EQ(Canonical("{mesh['a'=2,'b'=4], [], unreduced={'a', 'b'}}"), "{unreduced}");
  EXPECT_EQ(Canonical("{mesh['a'=2,'b'=4], [], unreduced=max{'a', 'b'}}"), "{unreduced=max}");
  EXPECT_EQ(Canonical("{mesh['x'=2,'y'=2], unreduced=min{'x', 'y'}}"), "{unreduced=min}");
  EXPECT_EQ(Canonical("{mesh['x'=2,'y'=2], unreduced=max}"), "{unreduced=max}");
  EXPECT_EQ(Canonical("{{mesh['a'=2,'b'=4], replicated}, {maximal_mesh[device_id=3]}}"),
            "{{replicated}, {maximal_mesh[device_id=3]}}");
  for (const char* kept :
       {"{mesh['a'=2,'b'=4], manual}", "{mesh['a'=2,'b'=4], [{}, {}]}",
        "{mesh['a'=2,'b'=4], [{?}]}", "{mesh['a'=2,'b'=4], [], replicated={'a'}}",
        "{mesh['a'=2,'b'=4], [], unreduced={'a'}}"}) {
    EXPECT_EQ(Canonical(kept), kept);
  }
}

TEST(HloTextTest, NewerXlaSaysSingleDevice) {
  EXPECT_EQ(Canonical("{single_device[device_id=3]}"), "{maximal_mesh[device_id=3]}");
}

TEST(HloTextTest, UnreducedNamesItsReduction) {
  EXPECT_EQ(Canonical("{unreduced=max shard_as 1}"), "{unreduced=max shard_as 1}");
  EXPECT_EQ(Canonical("{unreduced=sum}"), "{unreduced}");
  const std::string minimum =
      "{unreduced metadata={op_type=\"sdy::reduction_op\" op_name=\"MIN\"}}";
  EXPECT_EQ(Canonical(minimum), "{unreduced=min}");
  EXPECT_EQ(*ParseHloSharding(minimum), *ParseHloSharding("{unreduced=min}"));
}

TEST(HloTextTest, ReductionsOtherThanSumAreKept) {
  constexpr char kText[] =
      "{devices=[2,4]<=[8] last_tile_dims={unreduced} metadata={op_type=\"sdy::reduction_op\" "
      "op_name=\"MAX\"}}";
  EXPECT_EQ(Canonical(kText), kText);
  EXPECT_EQ(std::get<Tiled>(ParseHloSharding(kText)->form).reduction, ReductionOp::kMax);
}

TEST(HloTextTest, ErrorsTellColumnAndExpectation) {
  constexpr const char* kErrors[][2] = {
      {"", "column 1: expected '{' to start a sharding, found the end"},
      {"replicated", "column 1: expected '{' to start a sharding, found 'replicated'"},
      {"{devices=[2,2]<=[4]", "column 20: expected an item of a sharding or '}', found the end"},
      {"{devices=[2,2]<=[2,2]}", "column 22: expected 'T(', found '}'"},
      {"{devices=[2;2]<=[4]}", "column 12: expected ',' or ']', found ';'"},
      {"{devices=[2,2]<=[4]}x", "column 21: Extra content after sharding"},
      {"{devices=[2,2]<=[4] bogus}", "column 21: expected an item of a sharding, found 'bogus'"},
      {"{devices=[2]<=[2] last_tile_dims={tuple}}",
       "column 35: expected maximal, manual, unreduced or replicated"},
      {"{unreduced=mean}", "column 12: expected sum, max or min, found 'mean'"},
      {"{unreduced=max metadata={op_type=\"sdy::reduction_op\" op_name=\"MIN\"}}",
       "column 1: the metadata names another reduction"},
      {"{devices=[99999999999999999999]<=[4]}", "column 11: a tile dimension does not fit 64 bits"},
      {"{replicated device=1}", "replicated shardings should not have any devices assigned"},
      {"{maximal}", "maximal shardings should have exactly one device assigned"},
      {"{maximal device=-1}", "device -1 is negative"},
      {"{device=1}", "non-maximal shardings must have a tile assignment list including dimensions"},
      {"{devices=[1]0}",
       "column 10: non-maximal shardings must have more than one device assigned"},
      {"{devices=[2,2]<=[3]}",
       "column 10: the list after <= makes 3 devices, but the tile dimensions before it make 4: "
       "the "
       "two must match"},
      {"{devices=[2,2]0,1,2}", "does not match the tile assignment dimensions product"},
      {"{devices=[2]1,1}", "device 1 is not unique in tile assignment"},
      {"{devices=[1,4]<=[4] last_tile_dims={manual} last_tile_dim_replicate}",
       "exclude each other"},
      {"{devices=[2]<=[2] last_tile_dims={manual,manual}}",
       "2 subgroups for a tile assignment of 1"},
      {"{replicated manual}", "column 13: a sharding is of one kind"},
      {"{replicated shard_as}", "column 21: expected a shard group id"},
      {"{{replicated},}", "column 15: expected '{' to start a sharding"},
      {"{mesh['a'=2], [{'b'}]}", "column 17: the mesh has no axis \"b\""},
      {"{mesh['a'=2], [{'a'}, {'a'}]}", "axis \"a\" is used twice"},
      {"{mesh['a'=8], [{'a':(1)4}, {'a':(2)2}]}", "used twice, or by sub-axes that overlap"},
      {"{mesh['a'=8], [{'a':(3)2}]}", "must divide the axis size 8"},
      {"{mesh['a'=8], [{'a':(1)8}]}", "is the whole axis"},
      {"{replicated metadata={a={b={c={d={e={f={g={h={i={j={k=1}}}}}}}}}}}}", "less nesting"},
  };
  for (const auto& [text, error] : kErrors) {
    const auto sharding = ParseHloSharding(text);
    ASSERT_FALSE(sharding.ok()) << text;
    const ErrorInfo info = GetErrorInfo(sharding.status());
    EXPECT_EQ(info.metadata.at("field"), "hlo_text");
    EXPECT_THAT(info.metadata.at("expectation"), HasSubstr(error)) << text;
    EXPECT_THAT(info.metadata.at("expectation"), HasSubstr("column ")) << text;
  }
}

TEST(HloTextTest, ShardGroupsCountInEqualityAndMetadataDoesNot) {
  const auto plain = ParseHloSharding("{replicated}");
  EXPECT_EQ(*plain, *ParseHloSharding("{replicated metadata={op_name=\"a\"}}"));
  EXPECT_FALSE(*plain == *ParseHloSharding("{replicated shard_as 1}"));
}

// A reader that takes quadratic time does not end within the test's limit.
TEST(HloTextTest, LongTextsAreReadToTheirEnd) {
  std::string tuple = "{{replicated}";
  for (int i = 1; i <= 20'000; ++i) {
    // XLA writes these comments to count leaves for its readers.
    absl::StrAppend(&tuple, ", ", i % 5 == 0 ? absl::StrCat("/*index=", i, "*/") : "",
                    "{devices=[2,2]<=[4]}");
  }
  EXPECT_TRUE(Canonical(tuple + "}") == tuple + "}");
  std::string list = "{devices=[16384]1,0";
  for (int i = 2; i < 16'384; ++i) absl::StrAppend(&list, ",", i);
  EXPECT_EQ(Canonical(list + "}"), list + "}");
  EXPECT_THAT(Canonical(std::string(1 << 20, '{')), HasSubstr("column "));
  std::string comments = "{";
  for (int i = 0; i < (1 << 20); ++i) comments += "/*";
  EXPECT_THAT(Canonical(comments), HasSubstr("column "));
}

TEST(HloTextTest, ShortTextsThatListManyDevicesAreBounded) {
  constexpr char kLeaf[] =
      "{devices=[3,131072,2]<=[3,262144]T(1,0) last_tile_dims={replicated,manual}}";
  std::string tuple = absl::StrCat("{", kLeaf);
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&tuple, ",", kLeaf);
  EXPECT_THAT(Canonical(tuple + "}"), HasSubstr("lists more than"));
}

}  // namespace
}  // namespace remesh::planner
