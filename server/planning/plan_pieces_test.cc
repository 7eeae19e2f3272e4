// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_pieces.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/convert/plan_proto.h"
#include "server/planning/read_ahead.h"
#include "server/questions/create_plan.h"
#include "server/questions/planning_test_spec.h"

namespace remesh::server {
namespace {

class PlanPiecesTest : public ::testing::Test {
 protected:
  // A plan of many windows, with many transfers in each.
  void SetUp() override {
    v1::CreatePlanRequest request;
    *request.mutable_spec() = TestSpec();
    request.mutable_spec()->mutable_options()->set_window_bytes(256);
    for (int i = 0; i < 20; ++i) {
      v1::ArraySpec& array = *request.mutable_spec()->add_arrays();
      array = request.spec().arrays(0);
      array.set_name(absl::StrCat("array ", i));
    }
    const auto made = CreatePlan(cache_, request, nullptr);
    ASSERT_TRUE(made.ok()) << made.status();
    get_.set_name(made->plan().name());
    get_.set_view(v1::FULL);
  }

  // Returns the transfers of all pieces; emit() returns false after every `at_once` pieces.
  v1::Plan Read(size_t piece_bytes, int at_once) {
    PlanPieces pieces(cache_, get_, piece_bytes);
    v1::Plan merged;
    for (bool stopped = true; stopped;) {
      stopped = false;
      int emitted = 0;
      const absl::Status status = pieces.Emit([&](const v1::Plan& piece) {
        EXPECT_FALSE(stopped);
        merged.mutable_transfers()->MergeFrom(piece.transfers());
        stopped = ++emitted == at_once;
        return !stopped;
      });
      EXPECT_TRUE(status.ok()) << status;
    }
    return merged;
  }

  PlanCache cache_{kPlenty};
  v1::GetPlanRequest get_;
};

TEST_F(PlanPiecesTest, APlanIsWholeWhereverItsReaderLetsItWait) {
  const v1::Plan whole = Read(PlanPieces::kPieceBytes, 1 << 30);
  ASSERT_GT(whole.transfers_size(), 200);
  ASSERT_GT(whole.transfers(whole.transfers_size() - 1).window(), 1);
  for (const size_t piece_bytes : {1u, 100u, 700u, 3000u}) {
    for (const int at_once : {1, 2, 7}) {
      EXPECT_TRUE(Read(piece_bytes, at_once).SerializeAsString() == whole.SerializeAsString())
          << piece_bytes << " bytes, " << at_once << " at once";
    }
  }
}

// Regression: it was expanded again for each piece.
TEST_F(PlanPiecesTest, APlanIsExpandedOnceForASlowReader) {
  const v1::Plan whole = Read(PlanPieces::kPieceBytes, 1 << 30);
  KeptBytes kept(kPlenty);
  int expansions = 0;
  ReadAhead<v1::Plan> ahead(kept, "a",
                            [&, pieces = PlanPieces(cache_, get_, 100)](auto emit) mutable {
                              ++expansions;
                              return pieces.Emit(emit);
                            });
  v1::Plan merged;
  int count = 0;
  for (bool stopped = true; stopped;) {
    stopped = false;
    const absl::Status status = ahead([&](const v1::Plan& piece) {
      merged.mutable_transfers()->MergeFrom(piece.transfers());
      ++count;
      stopped = true;
      return false;
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_GT(count, 50);
  EXPECT_EQ(expansions, 1);
  EXPECT_TRUE(merged.SerializeAsString() == whole.SerializeAsString());
}

// Regression: however many boxes were missing, one message named them all.
TEST_F(PlanPiecesTest, MissingBoxesComeInPieces) {
  v1::CreatePlanRequest request;
  v1::PlanSpec& spec = *request.mutable_spec();
  spec = TestSpec();
  for (const int64_t id : {2, 3}) (*spec.mutable_device_lists())["left"].add_ids(id);
  v1::Sharding& target = *spec.mutable_arrays(0)->mutable_target();
  target.set_hlo_text("{devices=[1,2]<=[2]}");
  target.mutable_devices()->set_ref("left");
  for (int i = 0; i < 4'000; ++i) {
    v1::ArraySpec& array = *spec.add_arrays();
    array = spec.arrays(0);
    array.set_name(absl::StrCat("array ", i));
  }
  for (const int64_t id : {0, 1}) spec.mutable_options()->add_lost_device_ids(id);
  spec.add_fallbacks()->set_checkpoint("/checkpoints");
  const auto made = CreatePlan(cache_, request, nullptr);
  ASSERT_TRUE(made.ok()) << made.status();
  const v1::Plan& first = made->plan();
  EXPECT_GE(first.missing_boxes(), 4'001);
  EXPECT_GT(first.missing_size(), 0);
  EXPECT_LT(first.missing_size(), first.missing_boxes());
  EXPECT_LT(first.ByteSizeLong(), 2 * proto::kMissingBytes);
  get_.set_name(first.name());
  for (const v1::PlanView view : {v1::SUMMARY, v1::FULL, v1::BASIC}) {
    get_.set_view(view);
    PlanPieces pieces(cache_, get_, 1000);
    v1::Plan merged;
    for (bool more = true; more;) {
      more = false;
      const absl::Status status = pieces.Emit([&](const v1::Plan& piece) {
        EXPECT_LT(piece.missing_size() == first.missing_size() ? 0 : piece.ByteSizeLong(), 2000);
        merged.MergeFrom(piece);
        more = true;
        return false;
      });
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(merged.missing_size(), view == v1::BASIC ? 0 : first.missing_boxes());
    std::set<std::string> different;
    for (const v1::MissingBox& box : merged.missing()) different.insert(box.SerializeAsString());
    EXPECT_EQ(static_cast<int>(different.size()), merged.missing_size());
  }
}

TEST_F(PlanPiecesTest, APlanThatGoesWhileItIsReadIsStillReadToItsEnd) {
  PlanPieces pieces(cache_, get_, 100);
  ASSERT_TRUE(pieces.Emit([](const v1::Plan&) { return false; }).ok());
  ASSERT_TRUE(cache_.Flush(true, true).ok());
  int transfers = 0;
  const absl::Status status = pieces.Emit([&](const v1::Plan& piece) {
    transfers += piece.transfers_size();
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(transfers, 200);
}

}  // namespace
}  // namespace remesh::server
