// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/transfer_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/make_plan.h"
#include "proto/convert/plan_proto.h"
#include "proto/text/text.h"
#include "tests/testing/random_request.h"

namespace remesh::proto {
namespace {

std::string Streamed(const google::protobuf::Message& head,
                     const google::protobuf::RepeatedPtrField<v1::Transfer>& transfers) {
  const JsonAroundTransfers json = CutAtTransfers(head);
  std::string text = json.before;
  for (const v1::Transfer& transfer : transfers) {
    AppendTransfer(transfer, &transfer == &*transfers.begin(), text);
  }
  return text + json.after;
}

// The text is the same message, and every field is printed: as many keys as ToJson() writes.
void ExpectSameAsToJson(const v1::CreatePlanResponse& whole) {
  v1::CreatePlanResponse head = whole;
  head.mutable_plan()->clear_transfers();
  const std::string text = Streamed(head, whole.plan().transfers());
  v1::CreatePlanResponse read;
  const absl::Status status = ParseText(text, read);
  ASSERT_TRUE(status.ok()) << status << "\n" << text;
  EXPECT_EQ(ToJson(read, false), ToJson(whole, false));
  const std::string unary = ToJson(whole, false);
  EXPECT_EQ(std::count(text.begin(), text.end(), ':'), std::count(unary.begin(), unary.end(), ':'));
}

TEST(TransferJsonTest, StreamedPlansAreTheUnaryAnswer) {
  int64_t transfers = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const auto request = planner::Canonicalize(testing::RandomRequest(seed));
    ASSERT_TRUE(request.ok()) << request.status();
    const auto plan = planner::MakePlan(request->canonical);
    ASSERT_TRUE(plan.ok()) << plan.status();
    v1::CreatePlanResponse whole;
    *whole.mutable_plan() = ToProto(*plan, request->canonical, request->binding, "plans/x");
    ForEachTransferProto(
        *plan, request->canonical, request->binding,
        [&](const v1::Transfer& transfer) { *whole.mutable_plan()->add_transfers() = transfer; });
    transfers += whole.plan().transfers_size();
    ExpectSameAsToJson(whole);
  }
  EXPECT_GT(transfers, 1000);
}

TEST(TransferJsonTest, NamesAreEscaped) {
  v1::CreatePlanResponse whole;
  whole.mutable_plan()->set_name("a name with \"transfers\": [] in it");
  for (const char* name :
       {"quote \" and \\", "line\nbreak", "\x01", "layer/0 <&>", "\u00e9\u2028"}) {
    v1::Transfer& transfer = *whole.mutable_plan()->add_transfers();
    transfer.set_array(name);
    transfer.mutable_box()->add_lo(-1);
  }
  ExpectSameAsToJson(whole);
}

TEST(TransferJsonTest, APlanAloneAndOneWithoutTransfers) {
  v1::Plan plan;
  plan.set_name("plans/x");
  v1::Plan read;
  ASSERT_TRUE(ParseText(Streamed(plan, {}), read).ok());
  EXPECT_EQ(ToJson(read, false), ToJson(plan, false));
}

}  // namespace
}  // namespace remesh::proto
