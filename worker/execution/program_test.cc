// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/program.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "worker/execution/messages.h"
#include "worker/execution/testing/program.h"

namespace remesh::worker {
namespace {

// Two hosts, devices 70 and 71; this is the first.
class ProgramReaderTest : public ::testing::Test {
 protected:
  ProgramReaderTest() {
    v1::Prepare prepare;
    prepare.add_peers()->add_device_ids(70);
    prepare.add_peers()->add_device_ids(71);
    devices_ = *AttemptDevices::Make(prepare);
    message_ = Wire({{.window = 1, .box = box_, .from = 70, .to = 71}});
  }

  static v1::HostProgram Wire(const std::vector<worker::TestOperation>& operations) {
    return TestProgram({{"w", {6, 8}, 16}}, 2).Of(operations, "print");
  }
  absl::StatusOr<Program> Read(const std::vector<v1::HostProgram>& chunks) {
    ProgramReader reader(&devices_, plan_, /*stretches_max=*/1000, /*slices_max=*/16);
    for (const v1::HostProgram& chunk : chunks) {
      if (absl::Status status = reader.Add(chunk); !status.ok()) return status;
    }
    return std::move(reader).Finish();
  }
  ErrorInfo Error(const v1::HostProgram& message) { return GetErrorInfo(Read({message}).status()); }

  const planner::Box box_{{{0, 3}, {4, 8}}};
  AttemptDevices devices_;
  PlanId plan_{.name = "plans/p", .fingerprint = "print", .digest = "", .windows = 2};
  v1::HostProgram message_;
};

TEST_F(ProgramReaderTest, ChunksMakeAProgram) {
  v1::HostProgram first = message_, second;
  second.mutable_moves()->Swap(first.mutable_moves());
  const auto program = Read({first, second});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->windows(), 2);
  ASSERT_EQ(program->arrays.size(), 1u);
  EXPECT_EQ(program->arrays[0].name, "w");
  EXPECT_EQ(program->arrays[0].shape, (planner::Shape{6, 8}));
  EXPECT_EQ(program->arrays[0].bits_per_element, 16);
  ASSERT_EQ(program->stretches.size(), 1u);
  EXPECT_EQ(program->stretches[0].window, 1);
  EXPECT_EQ(program->stretches[0].lo, 0);
  EXPECT_EQ(program->stretches[0].hi, 12 * 16);
  EXPECT_EQ(program->stretches[0].from_device, 0);
  EXPECT_EQ(program->stretches[0].to_device, 1);
  EXPECT_EQ(program->PlaceOn(0, 0, 12 * 16).box, box_);
  EXPECT_EQ(program->PlaceOn(0, 0, 12 * 16).array, "w");
}

TEST_F(ProgramReaderTest, ProgramsOfAnotherPlanOrHostAreRefused) {
  EXPECT_EQ(GetErrorInfo(Read({}).status()).metadata["field"], "chunks");
  v1::HostProgram other = message_;
  other.set_fingerprint("another");
  EXPECT_EQ(Error(other).reason, "FINGERPRINT_MISMATCH");
  other = message_;
  other.mutable_schedule()->set_windows(3);
  EXPECT_EQ(Error(other).metadata["field"], "schedule.windows");
  other = message_;
  other.set_devices(1, 72);
  EXPECT_EQ(Error(other).metadata["field"], "devices[1]");
  EXPECT_EQ(Error(Wire({{.box = box_, .from = 71, .to = 71}})).metadata["field"],
            "moves.from_devices[0]");
}

// A few bytes can ask for the same moves again and again.
TEST_F(ProgramReaderTest, ExpansionEndsAtALimit) {
  message_.mutable_schedule()->set_rounds(1);
  message_.mutable_schedule()->set_parts(2);
  v1::ProgramMoves& moves = *message_.mutable_moves();
  moves.set_round_steps(0, 0);
  const v1::ProgramMoves one = moves;
  EXPECT_TRUE(Read({message_}).ok());
  for (int i = 0; i < 500; ++i) moves.MergeFrom(one);
  const ErrorInfo error = Error(message_);
  EXPECT_EQ(error.reason, "PROGRAM_TOO_LARGE");
  EXPECT_EQ(error.metadata.at("of"), "stretches");
}

// Stretches may have any length, so what a host keeps for their chunks is limited as well.
TEST_F(ProgramReaderTest, WhatAHostMovesEndsAtALimit) {
  const auto moving = [](int64_t bytes) {
    return TestProgram({{"w", {bytes}, 8}}, 2)
        .Of({{.window = 1, .box = planner::Box{{{0, bytes}}}, .from = 70, .to = 71}}, "print");
  };
  v1::HostProgram largest = moving(16 * kSliceBytesMax);
  EXPECT_TRUE(Read({largest}).ok());
  const ErrorInfo error = Error(moving(16 * kSliceBytesMax + 1));
  EXPECT_EQ(error.reason, "PROGRAM_TOO_LARGE");
  EXPECT_EQ(error.metadata.at("of"), "slices");
  EXPECT_EQ(error.metadata.at("limit"), "16");
  EXPECT_EQ(Error(moving(int64_t{1} << 58)).metadata["of"], "slices");
  // The same again.
  largest.mutable_moves()->MergeFrom(v1::ProgramMoves(largest.moves()));
  largest.mutable_moves()->set_round_steps(1, 0);
  EXPECT_EQ(Error(largest).metadata["of"], "slices");
}

// It answers the same request in another way: sizes and digests of chunks may
// agree.
TEST_F(ProgramReaderTest, AProgramOfAnotherPlanIsRefused) {
  plan_.digest = "\x01\xab";
  message_.set_plan_digest("\x01\xac");
  const absl::Status status = Read({message_}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const ErrorInfo error = GetErrorInfo(status);
  EXPECT_EQ(error.reason, "PLAN_DIFFERS");
  EXPECT_EQ(error.metadata.at("plan"), "plans/p");
  EXPECT_EQ(error.metadata.at("found"), "01ac");
  EXPECT_EQ(error.metadata.at("expected"), "01ab");
  // A later chunk says so.
  v1::HostProgram later;
  message_.set_plan_digest(plan_.digest);
  later.set_plan_digest("x");
  EXPECT_EQ(GetErrorInfo(Read({message_, later}).status()).reason, "PLAN_DIFFERS");
}

TEST_F(ProgramReaderTest, PlansAreComparedIfBothSidesNameADigest) {
  for (const char* expected : {"", "same"}) {
    for (const char* found : {"", "same"}) {
      plan_.digest = expected;
      message_.set_plan_digest(found);
      const auto program = Read({message_});
      ASSERT_TRUE(program.ok()) << program.status();
      EXPECT_EQ(program->plan_compared, *expected != 0 && *found != 0);
    }
  }
}

TEST_F(ProgramReaderTest, EndlessStreamsEndAtALimit) {
  ProgramReader reader(&devices_, plan_);
  ASSERT_TRUE(reader.Add(message_).ok());
  v1::HostProgram more;
  more.mutable_names()->add_middles(std::string(1 << 20, 'x'));
  absl::Status status;
  for (int i = 0; i < 40 && status.ok(); ++i) status = reader.Add(more);
  EXPECT_EQ(GetErrorInfo(status).reason, "PROGRAM_TOO_LARGE");
}

}  // namespace
}  // namespace remesh::worker
