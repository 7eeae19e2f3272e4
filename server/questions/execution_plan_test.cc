// SPDX-License-Identifier: Apache-2.0
#include "server/questions/execution_plan.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/questions/create_plan.h"
#include "server/questions/join_spec.h"
#include "server/questions/place_state.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

// Makes the move, with all its planning.
absl::StatusOr<PlannedExecution> PlanMove(PlanCache& cache, const StartPlanning& question,
                                          const planner::Topology* workers) {
  if (!question.targets) {
    return MoveByName(cache, question, workers, planner::Budget::Unlimited());
  }
  const Timestamp start = SteadyClock().Now();
  ASSIGN_OR_RETURN(const MoveQuestion asked,
                   QuestionOf(question, workers, cache, planner::Budget::Unlimited()));
  if (asked.moves_nothing) return MovesNothing(question);
  PlanCache::Answer answer = asked.answer.value_or(PlanCache::Answer());
  if (!asked.answer) {
    ASSIGN_OR_RETURN(answer, FindOrPlan(cache, asked.question));
  }
  cache.memo().Remember(asked.words, answer.plan->name);
  return MoveOf(question, asked.target, answer, start, planner::Budget::Unlimited());
}

class ExecutionPlanTest : public testing::Test {
 protected:
  std::shared_ptr<const PlacedState> Place(const v1::StateSpec& spec) {
    auto placed = PlaceState(spec, nullptr);
    EXPECT_TRUE(placed.ok()) << placed.status();
    return *placed;
  }

  StartPlanning MoveTo(const v1::StateSpec& target, const v1::PlanOptions& options = {}) {
    const auto targets = std::make_shared<v1::Targets>();
    *targets->mutable_shardings() = target.shardings();
    *targets->mutable_device_lists() = target.device_lists();
    for (const v1::StateArray& array : target.arrays()) {
      v1::TargetArray& named = *targets->add_arrays();
      named.set_name(array.name());
      *named.mutable_sharding() = array.sharding();
    }
    return {.id = 1,
            .source = source_,
            .targets = targets,
            .plan = "",
            .options = options,
            .keep = true};
  }

  absl::StatusOr<PlannedExecution> PlanTo(const v1::StateSpec& target,
                                          const planner::Topology* workers = nullptr,
                                          const v1::PlanOptions& options = {}) {
    return PlanMove(cache_, MoveTo(target, options), workers);
  }

  absl::StatusOr<PlannedExecution> PlanBy(const std::string& plan) {
    return PlanMove(
        cache_,
        {.id = 1, .source = source_, .targets = {}, .plan = plan, .options = {}, .keep = true},
        nullptr);
  }

  PlanCache cache_{1 << 30};
  std::shared_ptr<const PlacedState> source_ = Place(SourceOf(TestSpec()));
};

TEST_F(ExecutionPlanTest, PlacedStatesAreTakenApartByHost) {
  EXPECT_EQ(source_->total_shards, 4);
  EXPECT_EQ(source_->total_bytes, 256);
  ASSERT_EQ(source_->hosts.size(), 2u);
  const v1::Assignment assignment = AssignmentOf(*source_, "host-1");
  ASSERT_EQ(assignment.arrays_size(), 1);
  EXPECT_EQ(assignment.arrays(0).element_type(), "f32");
  ASSERT_EQ(assignment.shards_size(), 2);
  EXPECT_EQ(assignment.shards(1).device(), 3);
  EXPECT_EQ(assignment.shards(1).local_device(), 1);
  EXPECT_EQ(assignment.shards(1).box().lo(0), 6);
  EXPECT_EQ(assignment.shards(1).box().hi(1), 8);
}

TEST_F(ExecutionPlanTest, AMovePlannedForTargetsCanBeRunAgainByItsName) {
  const auto first = PlanTo(TargetOf(TestSpec()));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->hosts.size(), 2u);
  EXPECT_EQ(first->exchanges, (std::vector<std::vector<int32_t>>{{1}, {0}}));
  EXPECT_EQ(first->planning.cache(), v1::Planning::MISS);
  const auto second = PlanBy(first->plan);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->fingerprint, first->fingerprint);
  EXPECT_EQ(AssignmentOf(*second->target, "host-0").SerializeAsString(),
            AssignmentOf(*first->target, "host-0").SerializeAsString());
}

TEST_F(ExecutionPlanTest, AMoveAskedForInTheSameWordsNeedsNoCanonicalFormWhileMemoryHasItsPlan) {
  const auto ask = [&](const v1::PlanOptions& options = {}) {
    return *QuestionOf(MoveTo(TargetOf(TestSpec()), options), nullptr, cache_,
                       planner::Budget::Unlimited());
  };
  EXPECT_FALSE(ask().answer.has_value());
  const auto first = PlanTo(TargetOf(TestSpec()));
  ASSERT_TRUE(first.ok()) << first.status();
  const MoveQuestion again = ask();
  ASSERT_TRUE(again.answer.has_value());
  EXPECT_EQ(again.answer->plan->name, first->plan);
  EXPECT_EQ(again.question.spec, nullptr);
  EXPECT_EQ(cache_.Find(first->plan)->users, 2) << "both keep the plan";
  v1::PlanOptions other;
  other.set_window_bytes(1 << 20);
  EXPECT_FALSE(ask(other).answer.has_value());
  for (int i = 0; i < 2; ++i) cache_.EndUse(first->plan);
  ASSERT_TRUE(cache_.Delete(first->plan).ok());
  EXPECT_FALSE(ask().answer.has_value());
}

TEST_F(ExecutionPlanTest, APlanThatStartsElsewhereIsRefused) {
  v1::PlanSpec spec = TestSpec();
  std::swap(*spec.mutable_arrays(0)->mutable_source(), *spec.mutable_arrays(0)->mutable_target());
  v1::CreatePlanRequest request;
  *request.mutable_spec() = spec;
  const std::string name = CreatePlan(cache_, request, nullptr)->plan().name();
  EXPECT_TRUE(PlanBy(name)->moves_nothing) << "it leads here";
  *request.mutable_spec() = TestSpec({1, 0, 2, 3});  // the same boxes on swapped devices
  const std::string swapped = CreatePlan(cache_, request, nullptr)->plan().name();
  EXPECT_EQ(GetErrorInfo(PlanBy(swapped).status()).reason, "PLAN_SOURCE_MISMATCH");
  EXPECT_NE(PlanBy(swapped).status().message().find("starts elsewhere: "), std::string::npos);
  EXPECT_EQ(GetErrorInfo(PlanBy("plans/none").status()).reason, "PLAN_NOT_FOUND");
}

TEST_F(ExecutionPlanTest, TargetsMayNameWorkersThatCameLater) {
  planner::Topology workers = source_->layout->topology;
  workers.hosts.push_back({.name = "host-9",
                           .device_ids = {8, 9},
                           .nic_bytes_per_second = 1e9,
                           .nics = 1,
                           .fabric_bytes_per_second = 1e11,
                           .parent = "rack-9"});
  workers.domains = {{"other", "", 1e9, 1e9}, {"pod", "", 1e9, 1e9}, {"rack-9", "pod", 1e9, 1e9}};
  v1::StateSpec target = TargetOf(TestSpec());
  v1::DeviceList& devices = (*target.mutable_device_lists())["all"];
  devices.clear_ids();
  for (const int64_t id : {2, 3, 8, 9}) devices.add_ids(id);
  EXPECT_FALSE(PlanTo(target).ok());
  const auto move = PlanTo(target, &workers);
  ASSERT_TRUE(move.ok()) << move.status();
  EXPECT_EQ(move->hosts.size(), 3u);
  EXPECT_TRUE(move->target->hosts.contains("host-9"));
  EXPECT_EQ(move->target->layout->topology.domains.size(), 2u) << "its rack and the pod above";
  workers.hosts[0].device_ids = {1, 0};  // the state's numbering is not the workers'
  EXPECT_FALSE(PlanTo(target, &workers).ok());
}

// Rows of a reversed list: every device is at the place of another.
v1::StateSpec ReversedRows() {
  v1::StateSpec target = SourceOf(TestSpec());
  v1::DeviceList& devices = (*target.mutable_device_lists())["all"];
  devices.clear_ids();
  for (const int64_t id : {3, 2, 1, 0}) devices.add_ids(id);
  return target;
}

TEST_F(ExecutionPlanTest, AFreeOrderIsInTheTargetAndInTheAnswer) {
  v1::PlanOptions options;
  options.set_free_target_order(true);
  const auto move = PlanTo(ReversedRows(), nullptr, options);
  ASSERT_TRUE(move.ok()) << move.status();
  EXPECT_EQ(move->summary.kept_bytes(), 256);
  ASSERT_EQ(move->target_device_lists.size(), 1u);
  EXPECT_EQ(move->target_device_lists[0].arrays(0), "w");
  const v1::DeviceList& chosen = move->target_device_lists[0].devices();
  EXPECT_EQ(std::vector<int64_t>(chosen.ids().begin(), chosen.ids().end()),
            (std::vector<int64_t>{0, 1, 2, 3}));
  const v1::DeviceList& placed = move->target->spec.device_lists().at("all");
  EXPECT_EQ(placed.SerializeAsString(), chosen.SerializeAsString());
  EXPECT_EQ(AssignmentOf(*move->target, "host-1").shards(1).box().lo(0), 6);
  // By its name too, though the question had the list as it was given.
  const auto again = PlanBy(move->plan);
  ASSERT_TRUE(again.ok()) << again.status();
  for (const char* host : {"host-0", "host-1"}) {
    EXPECT_EQ(AssignmentOf(*again->target, host).SerializeAsString(),
              AssignmentOf(*move->target, host).SerializeAsString());
  }
}

// Explicit boxes name their devices themselves.
TEST_F(ExecutionPlanTest, AFreeOrderRenamesBoxesToo) {
  v1::StateSpec target = SourceOf(TestSpec());
  v1::Sharding boxes;
  for (const int64_t id : {3, 2, 1, 0}) {
    v1::DeviceBoxes& of = *boxes.mutable_boxes()->add_devices();
    of.set_device(id);
    v1::Box& box = *of.add_boxes();
    for (const int64_t lo : {2 * (3 - id), int64_t{0}}) box.add_lo(lo);
    for (const int64_t hi : {2 * (4 - id), int64_t{8}}) box.add_hi(hi);
  }
  *target.mutable_arrays(0)->mutable_sharding() = boxes;
  v1::PlanOptions options;
  options.set_free_target_order(true);
  const auto move = PlanTo(target, nullptr, options);
  ASSERT_TRUE(move.ok()) << move.status();
  EXPECT_EQ(move->summary.kept_bytes(), 256);
  EXPECT_EQ(AssignmentOf(*move->target, "host-1").shards(1).box().lo(0), 6);
}

TEST_F(ExecutionPlanTest, AHostWhoseDevicesAreLostIsSpared) {
  v1::StateSpec everywhere = SourceOf(TestSpec());
  (*everywhere.mutable_shardings())["rows"].set_hlo_text("{replicated}");
  source_ = Place(everywhere);
  v1::StateSpec target = TargetOf(TestSpec());
  v1::DeviceList& devices = (*target.mutable_device_lists())["all"];
  devices.clear_ids();
  for (const int64_t id : {0, 1}) devices.add_ids(id);
  (*target.mutable_shardings())["columns"].set_hlo_text("{devices=[1,2]<=[2]}");
  v1::PlanOptions options;
  options.add_lost_device_ids(3);
  const auto one = PlanTo(target, nullptr, options);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(one->spared_hosts.empty());
  EXPECT_EQ(one->hosts.at("host-1").local_devices, std::vector<int32_t>{0});
  options.add_lost_device_ids(2);
  const auto both = PlanTo(target, nullptr, options);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->spared_hosts, std::set<std::string>{"host-1"});
  EXPECT_FALSE(both->hosts.contains("host-1"));
  EXPECT_EQ(both->lost_device_ids, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(PlanBy(both->plan)->spared_hosts, both->spared_hosts);
}

TEST_F(ExecutionPlanTest, WhatOnlyLostDevicesHoldIsRefused) {
  v1::StateSpec target = TargetOf(TestSpec());
  v1::DeviceList& devices = (*target.mutable_device_lists())["all"];
  devices.clear_ids();
  for (const int64_t id : {0, 1}) devices.add_ids(id);
  (*target.mutable_shardings())["columns"].set_hlo_text("{devices=[1,2]<=[2]}");
  v1::PlanOptions options;
  options.add_lost_device_ids(2);
  const absl::Status status = PlanTo(target, nullptr, options).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(GetErrorInfo(status).metadata.at("lost_devices"), "2");
  // With a fallback there is a plan, but no host reads the fallback.
  v1::CreatePlanRequest request;
  *request.mutable_spec() = JoinSpecs(source_->spec, target, options);
  request.mutable_spec()->add_fallbacks()->set_checkpoint("/checkpoints");
  const auto plan = CreatePlan(cache_, request, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->plan().missing_size(), 0);
  EXPECT_EQ(GetErrorInfo(PlanBy(plan->plan().name()).status()).reason, "FALLBACK_UNSUPPORTED");
}

// Was: a plan that copied everything.
TEST_F(ExecutionPlanTest, TargetsWhereTheStateIsNeedNoPlan) {
  v1::StateSpec same = SourceOf(TestSpec());
  (*same.mutable_shardings())["rows"].set_hlo_text("{devices=[4,1]0,1,2,3}");
  const auto move = PlanTo(same);
  ASSERT_TRUE(move.ok()) << move.status();
  EXPECT_TRUE(move->moves_nothing);
  EXPECT_EQ(move->plan, "");
  EXPECT_EQ(move->target, source_);
  EXPECT_EQ(cache_.stats().computations(), 0);
  v1::PlanOptions options;
  options.set_window_bytes(-1);
  EXPECT_EQ(GetErrorInfo(PlanTo(same, nullptr, options).status()).metadata["field"],
            "options.window_bytes");
  (*same.mutable_shardings())["rows"].set_memory_kind("unpinned_host");
  EXPECT_FALSE(PlanTo(same)->moves_nothing);
  EXPECT_FALSE(PlanTo(TargetOf(TestSpec()))->moves_nothing);
}

// All devices hold all of it.
TEST_F(ExecutionPlanTest, WithLostDevicesSomethingMoves) {
  v1::StateSpec everywhere = SourceOf(TestSpec());
  (*everywhere.mutable_shardings())["rows"].set_hlo_text("{replicated}");
  (*everywhere.mutable_device_lists())["all"].mutable_ids()->RemoveLast();
  source_ = Place(everywhere);
  EXPECT_TRUE(PlanTo(everywhere)->moves_nothing);
  v1::PlanOptions options;
  options.add_lost_device_ids(3);  // which holds nothing of it
  const auto move = PlanTo(everywhere, nullptr, options);
  ASSERT_TRUE(move.ok()) << move.status();
  EXPECT_FALSE(move->moves_nothing);
}

TEST_F(ExecutionPlanTest, AFreeOrderMayLeadToWhereTheStateIs) {
  v1::PlanOptions options;
  options.set_free_target_order(true);
  const auto move = PlanTo(ReversedRows(), nullptr, options);
  ASSERT_TRUE(move.ok()) << move.status();
  EXPECT_TRUE(move->moves_nothing);
  EXPECT_EQ(move->target_device_lists.size(), 1u);
  EXPECT_TRUE(PlanBy(move->plan)->moves_nothing);
  EXPECT_FALSE(PlanTo(ReversedRows())->moves_nothing);
}

// A state of two arrays in rows.
class KeptArrayTest : public ExecutionPlanTest {
 protected:
  static v1::StateSpec TwoArrays() {
    v1::StateSpec spec = SourceOf(TestSpec());
    *spec.add_arrays() = spec.arrays(0);
    spec.mutable_arrays(1)->set_name("v");
    return spec;
  }
  // w to columns; v is not named.
  static v1::StateSpec OneToColumns() {
    v1::StateSpec spec = TargetOf(TestSpec());
    (*spec.mutable_shardings())["rows"].set_hlo_text("{replicated}");  // not what v is in
    return spec;
  }

  KeptArrayTest() { source_ = Place(TwoArrays()); }
};

TEST_F(KeptArrayTest, IsTheSameQuestionAsToNameItWhereItIs) {
  const auto kept = PlanTo(OneToColumns());
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_FALSE(kept->moves_nothing);
  v1::StateSpec named = TwoArrays();
  named.mutable_arrays(0)->mutable_sharding()->set_ref("columns");
  const auto other = PlanTo(named);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(kept->plan, other->plan);
  EXPECT_EQ(other->planning.cache(), v1::Planning::HIT);
  for (const char* host : {"host-0", "host-1"}) {
    EXPECT_EQ(AssignmentOf(*kept->target, host).SerializeAsString(),
              AssignmentOf(*other->target, host).SerializeAsString());
  }
  source_ = kept->target;  // it has moved, and v moves to columns, too
  v1::StateSpec rest = OneToColumns();
  rest.mutable_arrays(0)->set_name("v");
  const auto next = PlanTo(rest);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->summary.kept_bytes(), 256 + 64);
}

TEST_F(KeptArrayTest, WithoutAnyNameNothingMoves) {
  v1::StateSpec none = OneToColumns();
  none.clear_arrays();
  EXPECT_TRUE(PlanTo(none)->moves_nothing);
}

TEST_F(KeptArrayTest, IsRefusedWhereItCannotStay) {
  v1::PlanOptions options;
  options.add_lost_device_ids(2);
  const absl::Status lost = PlanTo(OneToColumns(), nullptr, options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(lost)) << lost;
  EXPECT_EQ(GetErrorInfo(lost).metadata["field"], "targets.arrays");
  EXPECT_EQ(GetErrorInfo(lost).metadata["value"], "v");
  const auto targets = std::make_shared<v1::Targets>();
  *targets->mutable_topology() = source_->spec.topology();
  targets->mutable_topology()->mutable_hosts()->RemoveLast();
  const absl::Status lacking =
      PlanMove(cache_, {.id = 1, .source = source_, .targets = targets, .plan = "", .options = {}},
               nullptr)
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(lacking)) << lacking;
  EXPECT_EQ(GetErrorInfo(lacking).metadata["value"], "w") << lacking;
}

TEST_F(ExecutionPlanTest, BadTargetsNameTheField) {
  v1::StateSpec target = TargetOf(TestSpec());
  target.mutable_arrays(0)->mutable_sharding()->set_ref("nowhere");
  const absl::Status status = PlanTo(target).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(GetErrorInfo(status).metadata.at("field").substr(0, 8), "targets.") << status;
}

}  // namespace
}  // namespace remesh::server
