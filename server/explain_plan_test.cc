// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "server/testing/server_fixture.h"

namespace remesh::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

  absl::StatusOr<std::string> Render(const std::string& name, v1::RenderPlanRequest::Form form,
                                     const std::string& label = "") {
    v1::RenderPlanRequest request;
    request.set_label(label);
    request.set_name(name);
    request.set_form(form);
    std::string text;
    const auto done = Ask<v1::RenderPlanResponse>([&](grpc::ClientContext* context, auto* chunk) {
      const auto reader = plans_->RenderPlan(context, request);
      while (reader->Read(chunk)) text += chunk->text();
      return reader->Finish();
    });
    if (!done.ok()) return done.status();
    return text;
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
  EXPECT_EQ(explained->explanation().domains(0).ingress_bytes(), 64);
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

TEST_F(ExplainPlanTest, APlanIsDrawnAsAPageAndAsATrace) {
  AttachWorkers();
  const auto created = CreatePlan(RowsToColumns());
  ASSERT_TRUE(created.ok()) << created.status();
  const std::string name = created->plan().name();
  const auto page = Render(name, v1::RenderPlanRequest::FORM_UNSPECIFIED);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, StartsWith("<!doctype html>"));
  EXPECT_THAT(*page, HasSubstr(created->plan().fingerprint()));
  EXPECT_EQ(*page, *Render(name, v1::RenderPlanRequest::HTML));
  EXPECT_THAT(*Render(name, v1::RenderPlanRequest::HTML, "jobs/j/states/s"),
              HasSubstr("{\"label\":\"jobs/j/states/s\""));
  const auto trace = Render(name, v1::RenderPlanRequest::TRACE);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(*trace, StartsWith("{\"displayTimeUnit\""));
  EXPECT_EQ(GetErrorInfo(Render("plans/none", v1::RenderPlanRequest::HTML).status()).reason,
            "PLAN_NOT_FOUND");
  const auto unknown = static_cast<v1::RenderPlanRequest::Form>(7);
  EXPECT_EQ(GetErrorInfo(Render(name, unknown).status()).metadata["field"], "form");
}

// Half of the 256 bytes cross, 64 into each rack; rack-a takes 10 MB/s.
TEST_F(ExplainPlanTest, TheRacksOfTheServersFileBindByName) {
  v1::TopologyRules rules;
  for (const auto& [host, rate] : {std::pair("a", 1e7), std::pair("b", 1e9)}) {
    const std::string rack = std::string("rack-") + host;
    v1::TopologyRules::HostRule& rule = *rules.add_hosts();
    rule.set_match(host);
    rule.set_parent(rack);
    v1::Domain& domain = *rules.add_domains();
    domain.set_name(rack);
    domain.set_egress_bytes_per_second(rate);
    domain.set_ingress_bytes_per_second(rate);
  }
  StopServer();
  core_options_.controller.topology_rules = *TopologyRules::Make(rules);
  StartServer();
  AttachWorkers();
  const auto topology = Ask<v1::Topology>([&](grpc::ClientContext* context, auto* response) {
    return workers_stub_->GetTopology(context, {}, response);
  });
  ASSERT_TRUE(topology.ok()) << topology.status();
  ASSERT_EQ(topology->hosts_size(), 2);
  EXPECT_EQ(topology->hosts(1).parent(), "rack-b");
  EXPECT_EQ(topology->domains_size(), 2);
  const auto created = CreatePlan(RowsToColumns());
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_DOUBLE_EQ(created->plan().summary().lower_bound_seconds(), 64 / 1e7);
  EXPECT_THAT(created->plan().summary().certificate(), StartsWith("domain rack-a "));
  const auto explained = Explain(created->plan().name());
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_THAT(explained->explanation().lower_bound().domains(), ElementsAre("rack-a"));
  EXPECT_EQ(explained->explanation().levels(0).busiest().name(), "rack-a");
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
}  // namespace remesh::server
