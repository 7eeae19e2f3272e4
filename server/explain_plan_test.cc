// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "server/server_fixture.h"

namespace remesh {
namespace {

using ::testing::ElementsAre;

class ExplainPlanTest : public ServerFixture {
 protected:
  // f32[8, 8] from rows to columns over the four devices of the workers.
  static v1::PlanSpec RowsToColumns() {
    v1::PlanSpec spec;
    v1::ArraySpec& array = *spec.add_arrays();
    array.set_name("w");
    array.add_shape(8);
    array.add_shape(8);
    array.set_element_type("f32");
    array.mutable_source()->set_hlo_text("{devices=[4,1]<=[4]}");
    array.mutable_target()->set_hlo_text("{devices=[1,4]<=[4]}");
    for (v1::Sharding* side : {array.mutable_source(), array.mutable_target()}) {
      side->mutable_devices()->mutable_range()->set_count(4);
    }
    return spec;
  }

  absl::StatusOr<v1::ExplainPlanResponse> Explain(const std::string& name, double rate = 0) {
    v1::ExplainPlanRequest request;
    request.set_name(name);
    request.set_checkpoint_bytes_per_second(rate);
    return Ask<v1::ExplainPlanResponse>([&](grpc::ClientContext* context, auto* response) {
      return plans_->ExplainPlan(context, request, response);
    });
  }
};

TEST_F(ExplainPlanTest, APlanIsExplainedInTheNamesOfItsHosts) {
  AttachWorkers();
  const auto created = CreatePlan(RowsToColumns());
  ASSERT_TRUE(created.ok()) << created.status();
  const auto explained = Explain(created->plan().name(), 1e6);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_EQ(explained->plan().name(), created->plan().name());
  ASSERT_EQ(explained->explanation().domains_size(), 2);
  EXPECT_EQ(explained->explanation().domains(0).name(), "a");
  EXPECT_EQ(explained->explanation().domains(0).bytes_in(), 64);
  ASSERT_EQ(explained->explanation().strategies_size(), 4);
  EXPECT_EQ(explained->explanation().strategies(0).ratio(), 1);
  EXPECT_DOUBLE_EQ(explained->explanation().strategies(3).seconds(), 256 / 1e6);
}

TEST_F(ExplainPlanTest, UnknownPlansAndBadRatesAreRefused) {
  AttachWorkers();
  EXPECT_EQ(GetErrorInfo(Explain("plans/none").status()).reason, "PLAN_NOT_FOUND");
  const auto created = CreatePlan(RowsToColumns());
  ASSERT_TRUE(created.ok()) << created.status();
  const absl::Status status = Explain(created->plan().name(), -1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(status).metadata["field"], "checkpoint_bytes_per_second");
}

TEST_F(ExplainPlanTest, ShardingsToPassThrough) {
  v1::SuggestIntermediateShardingRequest request;
  request.mutable_source()->set_hlo_text("{devices=[8,1]<=[8]}");
  request.mutable_target()->set_hlo_text("{devices=[1,4]<=[4]}");
  const auto suggest = [&] {
    return Ask<v1::SuggestIntermediateShardingResponse>(
        [&](grpc::ClientContext* context, auto* response) {
          return plans_->SuggestIntermediateSharding(context, request, response);
        });
  };
  const auto response = suggest();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->intermediate_tiles(), ElementsAre(4, 1));
  request.mutable_target()->set_hlo_text("{devices=[4,1]<=[4]}");
  EXPECT_EQ(GetErrorInfo(suggest().status()).reason, "NO_INTERMEDIATE_SHARDING_NEEDED");
}

}  // namespace
}  // namespace remesh
