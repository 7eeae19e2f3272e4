// SPDX-License-Identifier: Apache-2.0
// Bytes of plans come back as the same plans, and no other bytes come back as anything unsafe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "planner/codec/plan_bytes.h"
#include "planner/make_plan.h"
#include "planner/plan/plan_rep.h"
#include "planner/reprice.h"
#include "planner/validate.h"
#include "tests/testing/random_request.h"
#include "tests/testing/resealed.h"

namespace remesh::planner {
namespace {

using ::testing::HasSubstr;
using testing::Random;
using testing::RandomRequest;
using testing::RandomRequestOptions;
using testing::Resealed;
using testing::Uniform;

// The request of `seed` with its plan, or nullopt where there is none.
std::optional<AnsweredRequest> Answered(uint64_t seed, const RandomRequestOptions& options = {}) {
  auto canonical = Canonicalize(RandomRequest(seed, options));
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto plan = MakePlan(canonical->canonical);
  if (!plan.ok()) return std::nullopt;
  return AnsweredRequest{canonical->canonical, *std::move(plan)};
}

std::vector<Transfer> TransfersOf(const Plan& plan) {
  std::vector<Transfer> transfers;
  plan.ForEachTransfer([&](const Transfer& transfer) { transfers.push_back(transfer); });
  return transfers;
}

void ExpectEqualPlacements(const Placement& a, const Placement& b) {
  EXPECT_EQ(*a.layout, *b.layout);
  EXPECT_EQ(a.layout->partitions, b.layout->partitions);
  EXPECT_EQ(a.layout->tile_of, b.layout->tile_of);
  EXPECT_EQ(*a.devices, *b.devices);
  EXPECT_EQ(a.memory_kind, b.memory_kind);
}

void ExpectInside(const Transfer& transfer, const ReshardRequest& request) {
  ASSERT_LT(static_cast<size_t>(transfer.array), request.arrays.size());
  const Shape& shape = request.arrays[transfer.array].shape;
  ASSERT_EQ(static_cast<size_t>(transfer.box.rank()), shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    EXPECT_GE(transfer.box.dims[d].lo, 0);
    EXPECT_LE(transfer.box.dims[d].hi, shape[d]);
  }
}

// Equal plans have equal digests, whoever encodes them, and others have others:
// of the same request too.
TEST(PlanBytesLawTest, DigestsAreThoseOfPlans) {
  std::map<std::string, std::string> bytes_of;  // by digest
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto answered = Answered(seed);
    if (!answered) continue;
    const std::string bytes = EncodePlan(answered->request, answered->plan);
    const std::string digest = DigestOfPlanBytes(bytes);
    EXPECT_EQ(digest.size(), 16u);
    const auto decoded = DecodePlan(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(DigestOfPlanBytes(EncodePlan(decoded->request, decoded->plan)), digest);
    EXPECT_EQ(bytes_of.try_emplace(digest, bytes).first->second, bytes);
    PlanRep rep = answered->plan.rep();
    ++rep.figures.summary.windows;
    const Plan other(std::make_shared<PlanRep>(std::move(rep)));
    EXPECT_NE(DigestOfPlanBytes(EncodePlan(answered->request, other)), digest);
  }
  EXPECT_GT(bytes_of.size(), 50u);
}

TEST(PlanBytesLawTest, DecodeIsTheInverseOfEncode) {
  int plans = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto answered = Answered(seed);
    if (!answered) continue;
    ++plans;
    const std::string bytes = EncodePlan(answered->request, answered->plan);
    const auto decoded = DecodePlan(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(decoded->plan == answered->plan);
    EXPECT_EQ(TransfersOf(decoded->plan), TransfersOf(answered->plan));
    EXPECT_EQ(EncodePlan(decoded->request, decoded->plan), bytes);
    const ReshardRequest& was = answered->request.request;
    const ReshardRequest& is = decoded->request.request;
    EXPECT_EQ(decoded->request.fingerprint, answered->request.fingerprint);
    EXPECT_EQ(is.topology, was.topology);
    EXPECT_EQ(is.options, was.options);
    EXPECT_EQ(is.fallbacks, was.fallbacks);
    ASSERT_EQ(is.arrays.size(), was.arrays.size());
    for (size_t i = 0; i < is.arrays.size(); ++i) {
      EXPECT_EQ(is.arrays[i].shape, was.arrays[i].shape);
      EXPECT_EQ(is.arrays[i].element_type, was.arrays[i].element_type);
      ExpectEqualPlacements(is.arrays[i].source, was.arrays[i].source);
      ExpectEqualPlacements(is.arrays[i].target, was.arrays[i].target);
    }
    EXPECT_TRUE(*MakePlan(decoded->request) == answered->plan);
  }
  EXPECT_GT(plans, 400);
}

TEST(PlanBytesLawTest, NoPlanOfThisPlannerIsTooSlowToImport) {
  int plans = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const auto answered = Answered(seed);
    if (!answered) continue;
    ++plans;
    const auto repriced = Repriced(answered->request, answered->plan);
    ASSERT_TRUE(repriced.ok()) << seed << ": " << repriced.status();
    EXPECT_TRUE(*repriced == answered->plan) << seed;
  }
  EXPECT_GT(plans, 400);
}

TEST(PlanBytesLawTest, ChangedBytesAreCorrupt) {
  Random random(1);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto answered = Answered(seed);
    if (!answered) continue;
    const std::string bytes = EncodePlan(answered->request, answered->plan);
    for (int i = 0; i < 100; ++i) {
      std::string changed = bytes;
      changed[Uniform(random, 0, changed.size() - 1)] ^= 1 << Uniform(random, 0, 7);
      EXPECT_EQ(DecodePlan(changed).status().code(), absl::StatusCode::kDataLoss);
      const size_t size = Uniform(random, 0, bytes.size() - 1);
      EXPECT_EQ(DecodePlan(bytes.substr(0, size)).status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

// Regression: 1.5 KB of a compressed file became 4.1 GB, since an item of one byte is a value of a
// hundred.
TEST(PlanBytesLawTest, ManySmallItemsEndWithTheBudget) {
  const auto answered = Answered(1);
  ASSERT_TRUE(answered.has_value());
  auto rep = std::make_shared<PlanRep>(answered->plan.rep());
  rep->missing.resize(100'000);
  const std::string bytes = EncodePlan(answered->request, Plan(rep));
  int looks = 0;
  Budget budget([&] { return ++looks <= 100 ? absl::OkStatus() : absl::CancelledError("gone"); });
  EXPECT_EQ(DecodePlan(bytes, budget).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(looks, 101);
}

// Even with a checksum that fits, as a hostile file would have it: refused, or safe to expand.
TEST(PlanBytesLawTest, ForgedBytesAreRefusedOrSafe) {
  Random random(2);
  int refused = 0;
  int safe = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto answered = Answered(seed, {.arrays_max = 2, .elements_max = 100});
    if (!answered) continue;
    const std::string bytes = EncodePlan(answered->request, answered->plan);
    for (int i = 0; i < 300; ++i) {
      std::string changed = bytes;
      for (int64_t n = Uniform(random, 1, 3); n > 0; --n) {
        changed[Uniform(random, 8, changed.size() - 17)] = static_cast<char>(
            Uniform(random, 0, 2) == 0 ? Uniform(random, 0, 3) : Uniform(random, 0, 255));
      }
      if (Uniform(random, 0, 9) == 0) changed.erase(Uniform(random, 8, changed.size() - 17), 1);
      const auto decoded = DecodePlan(Resealed(changed));
      if (!decoded.ok()) {
        ++refused;
        continue;
      }
      ++safe;
      decoded->plan.ForEachTransfer(
          [&](const Transfer& transfer) { ExpectInside(transfer, decoded->request.request); });
      ValidatePlan(decoded->plan, decoded->request).IgnoreError();
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(safe, 100);
}

// Found by fuzzing: a peak of -2^63 bytes overflowed when ValidatePlan() counted its bits, and a
// figure that is no number made a plan differ from itself.
TEST(PlanBytesLawTest, ForgedFiguresAreRefused) {
  const auto answered = Answered(1);
  ASSERT_TRUE(answered.has_value());
  const auto field_of = [&](auto forge) {
    PlanRep rep = answered->plan.rep();
    forge(rep);
    const auto decoded =
        DecodePlan(EncodePlan(answered->request, Plan(std::make_shared<PlanRep>(std::move(rep)))));
    return decoded.ok() ? "" : std::string(decoded.status().message());
  };
  EXPECT_EQ(field_of([](PlanRep&) {}), "");
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(field_of([](PlanRep& rep) { rep.peak_bytes[0] = kLeast; }),
              HasSubstr("peak_bytes[0]"));
  EXPECT_THAT(field_of([](PlanRep& rep) { rep.peak_bytes.back() = int64_t{1} << 60; }),
              HasSubstr("peak_bytes["));
  EXPECT_THAT(field_of([](PlanRep& rep) { rep.figures.summary.messages = -1; }),
              HasSubstr("summary.messages"));
  EXPECT_THAT(field_of([](PlanRep& rep) { rep.figures.summary.quality = std::nan(""); }),
              HasSubstr("summary.quality"));
  EXPECT_THAT(field_of([](PlanRep& rep) { rep.figures.summary.bottleneck_seconds = -0.5; }),
              HasSubstr("summary.bottleneck_seconds"));
  // Regression: words for the bound took its first device without asking whether there is one.
  EXPECT_THAT(field_of([](PlanRep& rep) {
                rep.figures.fabric_bound = {.kind = Certificate::Kind::kEgress, .bits = 8};
              }),
              HasSubstr("fabric_bound"));
  EXPECT_THAT(field_of([](PlanRep& rep) {
                rep.figures.lower_bound = {.kind = Certificate::Kind::kLocalEgress, .bits = 8};
              }),
              HasSubstr("lower_bound"));
}

TEST(PlanBytesLawTest, AnotherFormatIsSaidSo) {
  const auto answered = Answered(1);
  ASSERT_TRUE(answered.has_value());
  const std::string bytes = EncodePlan(answered->request, answered->plan);
  for (const int by : {-1, 1}) {
    const std::string of_other =
        by < 0 ? testing::OfFormatBefore(bytes) : testing::OfNextFormat(bytes);
    const absl::Status status = DecodePlan(of_other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(GetErrorInfo(status).reason, "PLAN_BYTES_FORMAT");
    EXPECT_EQ(status.message(), absl::StrCat("the plan's bytes have format ", kPlanBytesFormat + by,
                                             ", this program reads ", kPlanBytesFormat));
  }
}

}  // namespace
}  // namespace remesh::planner
