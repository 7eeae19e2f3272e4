// SPDX-License-Identifier: Apache-2.0
// Plans as files: an exported plan can be imported again, and no other file is accepted as one.
#include "proto/convert/exported_plan.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "planner/plan/plan_rep.h"
#include "planner/reprice.h"
#include "planner/validate.h"
#include "proto/convert/plan_spec.h"
#include "tests/testing/resealed.h"

namespace remesh::proto {

using planner::EncodePlan;
using planner::Plan;
using planner::Repriced;

namespace {

constexpr int64_t kDevices = 8;

// One array f32[rows, 12] from rows to columns over eight devices on four hosts.
v1::PlanSpec Spec(int64_t rows = 24, const std::string& prefix = "h", int64_t first = 0) {
  v1::PlanSpec spec;
  for (int h = 0; h < 4; ++h) {
    v1::Host& host = *spec.mutable_topology()->add_hosts();
    host.set_name(prefix + std::to_string(h));
    host.add_device_ids(first + 2 * h);
    host.add_device_ids(first + 2 * h + 1);
    host.set_nics(1);
    host.set_nic_bytes_per_second(1e9);
    host.set_fabric_bytes_per_second(1e11);
  }
  v1::ArraySpec& array = *spec.add_arrays();
  array.set_name("w");
  array.add_shape(rows);
  array.add_shape(12);
  array.set_element_type("f32");
  for (v1::Sharding* sharding : {array.mutable_source(), array.mutable_target()}) {
    sharding->mutable_devices()->mutable_range()->set_start(first);
    sharding->mutable_devices()->mutable_range()->set_count(kDevices);
  }
  array.mutable_source()->set_hlo_text("{devices=[8,1]<=[8]}");
  array.mutable_target()->set_hlo_text("{devices=[2,4]<=[8]}");
  return spec;
}

struct Made {
  planner::CanonicalizedRequest canonicalized;
  Plan plan;
};

Made Make(const v1::PlanSpec& spec) {
  auto canonicalized = planner::Canonicalize(*ToReshardRequest(spec, nullptr));
  EXPECT_TRUE(canonicalized.ok());
  auto plan = planner::MakePlan(canonicalized->canonical);
  EXPECT_TRUE(plan.ok());
  return {*std::move(canonicalized), *std::move(plan)};
}

std::string Export(const v1::PlanSpec& spec) {
  const Made made = Make(spec);
  v1::ExportedPlan file;
  file.set_name("plans/x");
  file.set_spec(spec.SerializeAsString());
  file.set_plan(EncodePlan(made.canonicalized.canonical, made.plan));
  file.set_compute_seconds(0.25);
  auto bytes = EncodeExport(file);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *bytes;
}

absl::StatusOr<Plan> Import(std::string_view bytes) {
  auto read = ReadExport(bytes, nullptr, nullptr);
  if (!read.ok()) return read.status();
  return Repriced(read->canonicalized.canonical, read->plan);
}

void ExpectInvalid(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const std::string reason = GetErrorInfo(status).reason;
  EXPECT_TRUE(reason == "PLAN_FILE_INVALID" || reason == "PLAN_INVALID") << status;
}

TEST(ExportedPlanTest, WhatWasExportedComesBack) {
  const std::string bytes = Export(Spec());
  const auto read = ReadExport(bytes, nullptr, nullptr);
  ASSERT_TRUE(read.ok()) << read.status();
  const Made made = Make(Spec());
  EXPECT_EQ(read->file.name(), "plans/x");
  EXPECT_EQ(read->file.compute_seconds(), 0.25);
  EXPECT_EQ(read->canonicalized.binding, made.canonicalized.binding);
  const auto plan = Repriced(read->canonicalized.canonical, read->plan);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(*plan == made.plan) << plan->DebugString() << "\n" << made.plan.DebugString();
}

TEST(ExportedPlanTest, AnEqualQuestionOfOtherDevicesIsBound) {
  const std::string bytes = Export(Spec());
  const v1::PlanSpec other = Spec(24, "other", 100);
  const auto read = ReadExport(bytes, &other, nullptr);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->canonicalized.binding.device_ids[0] / 100, 1);
  EXPECT_TRUE(Repriced(read->canonicalized.canonical, read->plan).ok());
  const v1::PlanSpec larger = Spec(48);
  ExpectInvalid(ReadExport(bytes, &larger, nullptr).status());
}

TEST(ExportedPlanTest, ThePlanOfAnotherQuestionIsRefusedWhateverItsNames) {
  const Made other = Make(Spec(48));
  const Made made = Make(Spec());
  v1::ExportedPlan file;
  file.set_spec(Spec().SerializeAsString());
  file.set_plan(EncodePlan(other.canonicalized.canonical, other.plan));
  ExpectInvalid(Import(*EncodeExport(file)).status());
  // With the fingerprint of this spec.
  planner::CanonicalRequest forged = other.canonicalized.canonical;
  forged.fingerprint = made.canonicalized.canonical.fingerprint;
  file.set_plan(EncodePlan(forged, other.plan));
  ExpectInvalid(Import(*EncodeExport(file)).status());
}

TEST(ExportedPlanTest, DamagedFilesAreRefused) {
  const std::string bytes = Export(Spec());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    ExpectInvalid(Import(damaged).status());
    ExpectInvalid(Import(bytes.substr(0, random() % bytes.size())).status());
  }
  ExpectInvalid(Import("").status());
  ExpectInvalid(Import(bytes + "x").status());
}

TEST(ExportedPlanTest, AFileOfAnotherFormatOrSizeIsRefused) {
  std::string bytes = Export(Spec());
  bytes[8] = 2;
  ExpectInvalid(Import(testing::Resealed(bytes)).status());
  bytes[8] = 1;
  bytes[12] ^= 1;
  ExpectInvalid(Import(testing::Resealed(bytes)).status());
  bytes[12] ^= 1;
  bytes[19] = 0x7f;  // an enormous size
  ExpectInvalid(Import(testing::Resealed(bytes)).status());
  bytes[19] = 0;
  EXPECT_TRUE(Import(testing::Resealed(bytes)).ok());
}

TEST(ExportedPlanTest, APlanOfTheFormatBeforeIsRefusedWithBothNumbers) {
  const Made made = Make(Spec());
  v1::ExportedPlan file;
  file.set_spec(Spec().SerializeAsString());
  file.set_plan(testing::OfFormatBefore(EncodePlan(made.canonicalized.canonical, made.plan)));
  const absl::Status status = Import(*EncodeExport(file)).status();
  ExpectInvalid(status);
  const std::string numbers = absl::StrCat("format ", planner::kPlanBytesFormat - 1,
                                           ", this program reads ", planner::kPlanBytesFormat);
  EXPECT_NE(status.message().find(numbers), std::string::npos) << status;
}

// A hostile file may have digests that fit. If it is accepted, its plan must still be right.
// No server would read such a file: 13 KB that unpack to such a question took 4 GB.
TEST(ExportedPlanTest, AFileWithAQuestionThatUnpacksToMuchIsNotWritten) {
  v1::ExportedPlan file;
  file.set_spec(std::string(kExportSpecMax + 1, '\0'));
  EXPECT_TRUE(absl::IsResourceExhausted(EncodeExport(file).status()));
  file.set_spec("");
  file.set_version(std::string(kExportUnpackedMax, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(EncodeExport(file).status()));
}

// Regression: 13 KB of such a file took 4 GB.
TEST(ExportedPlanTest, AFileWithAQuestionThatUnpacksToMuchIsRefused) {
  v1::ExportedPlan file;
  file.set_spec(std::string(kExportSpecMax + 1, '\0'));
  const std::string content = file.SerializeAsString();
  std::string packed(ZSTD_compressBound(content.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 1));
  std::string bytes = "remesh.x";
  bytes += std::string("\1\0\0\0", 4);  // kExportFormat
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(content.size() >> (8 * i));
  const absl::Status status =
      DecodeExport(testing::Resealed(bytes + packed + std::string(16, '\0'))).status();
  EXPECT_NE(status.message().find("its question is too long"), std::string::npos) << status;
}

TEST(ExportedPlanTest, ForgedFilesAreRefusedOrRight) {
  const Made made = Make(Spec());
  v1::ExportedPlan file;
  file.set_spec(Spec().SerializeAsString());
  const std::string plan = EncodePlan(made.canonicalized.canonical, made.plan);
  std::mt19937 random(2);
  int refused = 0;
  int taken = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string forged = plan;
    for (uint32_t n = random() % 3; n != ~0u; --n) {
      forged[8 + random() % (forged.size() - 24)] =
          static_cast<char>(random() % 3 == 0 ? random() % 4 : random() % 256);
    }
    file.set_plan(testing::Resealed(forged));
    const auto imported = Import(*EncodeExport(file));
    if (!imported.ok()) {
      const absl::StatusCode code = imported.status().code();
      EXPECT_TRUE(code == absl::StatusCode::kInvalidArgument ||
                  code == absl::StatusCode::kResourceExhausted)
          << imported.status();
      ++refused;
      continue;
    }
    ++taken;
    EXPECT_TRUE(planner::ValidatePlan(*imported, made.canonicalized.canonical).ok());
    EXPECT_EQ(imported->summary().lower_bound_seconds, made.plan.summary().lower_bound_seconds);
    EXPECT_GE(imported->summary().quality, 1 - 1e-9);
    EXPECT_EQ(imported->summary().total_bytes, made.plan.summary().total_bytes);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(taken, 10);  // figures are not trusted, so changing them changes nothing
}

// Found by fuzzing: a file of 467 bytes kept a planning thread busy for 30 s, one of a few bytes
// more for hours, though the caller had gone.
TEST(ExportedPlanTest, TheReplayEndsWithItsBudget) {
  v1::PlanSpec spec = Spec();
  v1::ArraySpec& array = *spec.mutable_arrays(0);
  array.mutable_shape()->Clear();
  for (int d = 0; d < 12; ++d) array.add_shape(2);
  for (v1::Sharding* sharding : {array.mutable_source(), array.mutable_target()})
    sharding->set_hlo_text("{replicated}");
  array.mutable_source()->mutable_devices()->mutable_range()->set_count(1);
  spec.mutable_options()->set_window_bytes(256);
  const Made made = Make(spec);
  const auto looks_of = [&](int most) {
    int looks = 0;
    planner::Budget budget([&] {
      return ++looks <= most ? absl::OkStatus() : absl::CancelledError("the caller has gone");
    });
    const auto plan = Repriced(made.canonicalized.canonical, made.plan, budget);
    EXPECT_EQ(plan.status().code(),
              looks <= most ? absl::StatusCode::kOk : absl::StatusCode::kCancelled);
    return looks;
  };
  const int all = looks_of(1 << 20);
  EXPECT_GT(all, 200);  // of which but a few before the replay
  for (const int most : {5, 50, all / 2, all - 1}) EXPECT_EQ(looks_of(most), most + 1);
}

absl::Status StatusOfChanged(const std::function<void(planner::PlanRep&)>& change) {
  const Made made = Make(Spec());
  auto rep = std::make_shared<planner::PlanRep>(made.plan.rep());
  change(*rep);
  const planner::Schedule& schedule = rep->schedule;
  rep->figures.summary.windows = (schedule.parts + schedule.hops - 1) * schedule.rounds;
  return Repriced(made.canonicalized.canonical, Plan(rep)).status();
}

// Regression: a valid plan that waits in empty windows for minutes was imported, and then answered
// everybody's question.
TEST(ExportedPlanTest, APlanThatWaitsForNothingIsRefused) {
  EXPECT_TRUE(StatusOfChanged([](planner::PlanRep&) {}).ok());
  const absl::Status idle_hops =
      StatusOfChanged([](planner::PlanRep& rep) { rep.schedule.hops = 1'000'000; });
  EXPECT_EQ(GetErrorInfo(idle_hops).reason, "PLAN_TOO_SLOW") << idle_hops;
  const absl::Status idle_rounds = StatusOfChanged([](planner::PlanRep& rep) {
    rep.schedule.rounds += 1000;
    rep.round_begin.resize(rep.round_begin.size() + 1000, rep.round_begin.back());
  });
  EXPECT_EQ(GetErrorInfo(idle_rounds).reason, "PLAN_TOO_SLOW") << idle_rounds;
}

// Regression: moves of nothing cost their file three bytes each, and whoever answered with the plan
// gigabytes and minutes.
TEST(ExportedPlanTest, APlanThatMovesNothingIsRefused) {
  const absl::Status status = StatusOfChanged([](planner::PlanRep& rep) {
    rep.moves.push_back(rep.moves.back());
    rep.moves.back().whole = false;
    rep.stripes.push_back({static_cast<int32_t>(rep.moves.size()) - 1, 0, 0});
    rep.round_begin.back() += 1;
  });
  EXPECT_EQ(GetErrorInfo(status).reason, "PLAN_INVALID") << status;
  EXPECT_NE(status.message().find("moves of nothing"), std::string::npos) << status;
}

TEST(ExportedPlanTest, FiguresAreNotBelieved) {
  const Made made = Make(Spec());
  auto rep = std::make_shared<planner::PlanRep>(made.plan.rep());
  rep->figures.summary.bottleneck_seconds = 1e-12;
  rep->figures.summary.quality = 0.001;
  rep->figures.lower_bound = {};
  rep->peak_bytes.assign(rep->peak_bytes.size(), 1);
  const auto repriced = Repriced(made.canonicalized.canonical, Plan(rep));
  ASSERT_TRUE(repriced.ok()) << repriced.status();
  EXPECT_TRUE(*repriced == made.plan);
}

}  // namespace
}  // namespace remesh::proto
