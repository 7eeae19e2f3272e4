// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/suggest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/sharding/hlo_text.h"
#include "planner/sharding/sdy_text.h"
#include "proto/sharding/convert_sharding.h"

namespace remesh::proto {
namespace {

using ::testing::ElementsAre;

constexpr char kSdyFsdp[] = R"(#sdy.sharding<mesh<["fsdp"=8]>, [{"fsdp"}, {}]>)";

v1::SuggestIntermediateShardingRequest Request() {
  v1::SuggestIntermediateShardingRequest request;
  request.mutable_source()->set_hlo_text("{devices=[8,1]<=[8]}");
  request.mutable_source()->mutable_devices()->mutable_range()->set_start(16);
  request.mutable_source()->mutable_devices()->mutable_range()->set_count(8);
  request.mutable_source()->set_memory_kind("pinned_host");
  request.mutable_target()->set_hlo_text("{devices=[1,4]<=[4]}");
  return request;
}

TEST(SuggestTest, TheAnswerStandsWhereTheSourceStands) {
  const auto response = SuggestIntermediateSharding(Request());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->intermediate().hlo_text(), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(response->intermediate().devices().range().start(), 16);
  EXPECT_EQ(response->intermediate().memory_kind(), "pinned_host");
  EXPECT_THAT(response->source_tiles(), ElementsAre(8, 1));
  EXPECT_THAT(response->target_tiles(), ElementsAre(1, 4));
  EXPECT_THAT(response->intermediate_tiles(), ElementsAre(4, 1));
  EXPECT_EQ(response->replicas(), 2);
}

TEST(SuggestTest, EveryFormAnswersInItself) {
  v1::SuggestIntermediateShardingRequest request = Request();
  const std::string tiles = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}";
  request.mutable_source()->set_op_sharding(
      OpShardingToBytes(*planner::ParseHloSharding("{devices=[8,1]<=[8]}")));
  auto response = SuggestIntermediateSharding(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(planner::PrintHloSharding(*OpShardingFromBytes(response->intermediate().op_sharding())),
            tiles);

  request.mutable_source()->set_sdy_text(kSdyFsdp);
  response = SuggestIntermediateSharding(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->replicated_axes(), ElementsAre("fsdp_intermediate_replica"));
  const auto sdy = planner::ParseSdySharding(response->intermediate().sdy_text());
  ASSERT_TRUE(sdy.ok()) << sdy.status();

  *request.mutable_source()->mutable_named() = ToProto(*planner::ParseSdySharding(kSdyFsdp));
  response = SuggestIntermediateSharding(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(*FromProto(response->intermediate().named()), *sdy);
}

TEST(SuggestTest, BadInputNamesTheField) {
  v1::SuggestIntermediateShardingRequest request = Request();
  request.mutable_target()->set_hlo_text("{devices=[1,4]<=[5]}");
  EXPECT_EQ(GetErrorInfo(SuggestIntermediateSharding(request).status()).metadata["field"],
            "target.hlo_text");
  request.mutable_source()->set_ref("rows");
  EXPECT_EQ(GetErrorInfo(SuggestIntermediateSharding(request).status()).metadata["field"],
            "source.form");
  request = Request();
  request.mutable_target()->set_hlo_text("{devices=[8,1]<=[8]}");
  EXPECT_EQ(GetErrorInfo(SuggestIntermediateSharding(request).status()).reason,
            "NO_INTERMEDIATE_SHARDING");
}

}  // namespace
}  // namespace remesh::proto
