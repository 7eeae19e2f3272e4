// SPDX-License-Identifier: Apache-2.0
// The journal queue and the leadership, which know no other machine.
#include "server/controller/leadership/journal_queue.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "server/controller/leadership/leadership.h"

namespace remesh::server {
namespace {

std::vector<uint64_t> Sequences(Outbox& out) {
  std::vector<uint64_t> sequences;
  for (const Action& action : out.actions()) {
    if (const Persist* persist = std::get_if<Persist>(&action)) {
      sequences.push_back(persist->sequence);
    }
  }
  return sequences;
}

TEST(JournalQueueTest, WhatFollowsComesBackInOrderOnceItIsDurable) {
  JournalQueue journal(7);
  Outbox out;
  out.Persist({}, ExecutionStored{.name = "first"});
  out.Note("between");
  out.Persist({}, ExecutionStored{.name = "second"});
  out.Persist({}, StateCreated{.name = "third"});
  journal.Enqueue(out);
  EXPECT_EQ(Sequences(out), (std::vector<uint64_t>{8, 9, 10}));
  EXPECT_EQ(journal.durable(), 7u);

  const std::vector<FollowUp> two = journal.OnPersisted({.sequence = 9});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(std::get<ExecutionStored>(two[0]).name, "first");
  EXPECT_EQ(std::get<ExecutionStored>(two[1]).name, "second");
  EXPECT_EQ(journal.durable(), 9u);
  EXPECT_TRUE(journal.OnPersisted({.sequence = 9}).empty());
  const std::vector<FollowUp> last = journal.OnPersisted({.sequence = 10});
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(std::get<StateCreated>(last[0]).name, "third");
}

TEST(JournalQueueTest, AFullDiskHasNoRoomUntilItIsWrittenAgain) {
  JournalQueue journal(0);
  EXPECT_TRUE(journal.CheckRoom().ok());
  journal.OnPersisted({.sequence = 0, .full = true});
  EXPECT_EQ(GetErrorInfo(journal.CheckRoom()).reason, "JOURNAL_FULL");
  journal.OnPersisted({.sequence = 0});
  EXPECT_TRUE(journal.CheckRoom().ok());
}

class LeadershipTest : public testing::Test {
 protected:
  static JournalPast Past() {
    JournalPast past;
    past.cluster_uid = "cluster";
    past.leadership = "ours";
    past.sequence = 5;
    past.ends["before"] = 5;
    return past;
  }
  static v1::Register RegisterWith(const std::string& leadership, uint64_t sequence,
                                   uint64_t epoch = 0) {
    v1::Register registration;
    registration.set_host("a");
    registration.mutable_position()->set_leadership(leadership);
    registration.mutable_position()->set_sequence(sequence);
    registration.set_highest_epoch(epoch);
    return registration;
  }

  JournalQueue journal_{5};
  Leadership leadership_{Past(), 3, {}, journal_};
  std::vector<Record> records_;
  Outbox out_;
};

TEST_F(LeadershipTest, LeadsByAnEpochThatIsOnDisk) {
  leadership_.Begin(out_);
  journal_.Enqueue(out_);
  EXPECT_FALSE(leadership_.leads());
  for (const FollowUp& next : journal_.OnPersisted({.sequence = 6})) {
    ASSERT_TRUE(std::holds_alternative<LeadershipBegun>(next));
    leadership_.OnBegun();
  }
  EXPECT_TRUE(leadership_.leads());
  v1::AttachResponse command;
  leadership_.Sign(command);
  EXPECT_EQ(command.epoch(), 4u);
  EXPECT_EQ(command.position().sequence(), 6u);
  EXPECT_EQ(command.position().leadership(), "ours");
}

TEST_F(LeadershipTest, AHigherEpochIsUsedWhenItIsAdopted) {
  ASSERT_TRUE(leadership_.RaiseEpoch(RegisterWith("", 0, 9), records_).ok());
  EXPECT_EQ(records_.size(), 1u);
  EXPECT_EQ(leadership_.epoch(), 4u);
  EXPECT_EQ(leadership_.highest_epoch(), 10u);
  leadership_.Adopt(10);
  EXPECT_EQ(leadership_.epoch(), 10u);
  EXPECT_EQ(leadership_.RaiseEpoch(RegisterWith("", 0, ~uint64_t{0}), records_).code(),
            absl::StatusCode::kInvalidArgument);
}

// Regression: one worker that claimed a transaction of the future stopped all decisions, even under
// --accept-older-journal.
TEST_F(LeadershipTest, NoWorkerCanHaveSeenWhatThisLeadershipHasNotWritten) {
  v1::JournalPosition position = RegisterWith("ours", 1'000'000).position();
  EXPECT_EQ(leadership_.CheckPosition(position).code(), absl::StatusCode::kInvalidArgument);
  position.set_sequence(0);
  EXPECT_TRUE(leadership_.CheckPosition(position).ok());
  EXPECT_TRUE(leadership_.CheckPosition(RegisterWith("another", 1'000'000).position()).ok());
}

TEST_F(LeadershipTest, AJournalWithoutFilesStopsAllDecisions) {
  leadership_.OnJournalLost(
      MakeError(absl::StatusCode::kFailedPrecondition, "gone", {.reason = "JOURNAL_LOST"}));
  EXPECT_TRUE(leadership_.behind());
  EXPECT_TRUE(leadership_.journal_lost());
  EXPECT_EQ(GetErrorInfo(leadership_.CheckMayChange()).reason, "JOURNAL_LOST");
  EXPECT_FALSE(leadership_.OnProvenHost(RegisterWith("before", 4), records_, out_));
}

TEST_F(LeadershipTest, OneWhoWasToldOfALaterJournalStopsAllDecisions) {
  EXPECT_TRUE(leadership_.OnProvenHost(RegisterWith("before", 4), records_, out_));
  EXPECT_TRUE(leadership_.CheckMayChange().ok());
  EXPECT_FALSE(leadership_.OnProvenHost(RegisterWith("another", 1), records_, out_));
  EXPECT_TRUE(leadership_.behind());
  EXPECT_EQ(GetErrorInfo(leadership_.CheckMayChange()).reason, "JOURNAL_BEHIND");
  EXPECT_FALSE(leadership_.OnProvenHost(RegisterWith("before", 4), records_, out_));
  v1::AttachResponse command;
  leadership_.Sign(command);
  EXPECT_FALSE(command.has_position());
}

}  // namespace
}  // namespace remesh::server
