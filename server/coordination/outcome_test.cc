// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/outcome.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace remesh::server::coordination {
namespace {

const std::vector<std::string> kHosts = {"a", "b", "c"};

Contribution Barrier(const std::string& name) { return {.name = name}; }

Contribution Agreement(const std::string& digests) {
  return {.name = "save", .mode = Mode::kAgree, .payload = absl::Cord(digests)};
}

// A digest that only says which it is.
std::string Digest(char value) { return std::string(kDigestBytes, value); }

TEST(OutcomeTest, ABarrierEndsWellWithNothing) {
  const Outcome outcome =
      Decide({{0, Barrier("save")}, {1, Barrier("save")}, {2, Barrier("save")}}, kHosts);
  EXPECT_EQ(outcome, Outcome());
}

TEST(OutcomeTest, SaysWhoIsAtWhichCall) {
  const Contributions calls = {{0, Barrier("save")},
                               {1, {.name = "restore", .mode = Mode::kBroadcast, .root = 2}},
                               {2, Barrier("save")}};
  const Outcome outcome = Decide(calls, kHosts);
  EXPECT_EQ(outcome.ending, Ending::kNameMismatch);
  EXPECT_EQ(outcome.message,
            "members are at different calls: 0@a, 2@c at barrier \"save\"; "
            "1@b at broadcast \"restore\" with root 2");
}

TEST(OutcomeTest, AnotherRootIsAnotherCall) {
  const Contribution to_first = {.name = "rows", .mode = Mode::kGather, .root = 0};
  const Contribution to_all = {.name = "rows", .mode = Mode::kGather, .root = -1};
  const Outcome outcome = Decide({{0, to_first}, {1, to_all}, {2, to_first}}, kHosts);
  EXPECT_EQ(outcome.ending, Ending::kNameMismatch);
}

TEST(OutcomeTest, NamesGroupsOfRanksWithOtherStructures) {
  const Outcome outcome = Decide({{0, Agreement(Digest('s') + Digest('x'))},
                                  {1, Agreement(Digest('t') + Digest('x'))},
                                  {2, Agreement(Digest('s') + Digest('x'))}},
                                 kHosts);
  EXPECT_EQ(outcome.ending, Ending::kStructureMismatch);
  EXPECT_EQ(outcome.message, "save: structures differ; equal ones at 0@a, 2@c | 1@b");
}

TEST(OutcomeTest, NamesTheFirstGroupOfLeavesThatDiffers) {
  const std::string structure = Digest('s');
  const Outcome outcome =
      Decide({{0, Agreement(structure + Digest('x') + Digest('y') + Digest('z'))},
              {1, Agreement(structure + Digest('x') + Digest('y') + Digest('z'))},
              {2, Agreement(structure + Digest('x') + Digest('q') + Digest('q'))}},
             kHosts);
  EXPECT_EQ(outcome.ending, Ending::kValuesDiffer);
  EXPECT_EQ(outcome.message,
            "save: values differ in group 1 of leaves; equal ones at 0@a, 1@b | 2@c");
}

TEST(OutcomeTest, MoreLeavesAreAnotherValue) {
  const Outcome outcome = Decide({{0, Agreement(Digest('s') + Digest('x'))},
                                  {1, Agreement(Digest('s') + Digest('x') + Digest('y'))},
                                  {2, Agreement(Digest('s') + Digest('x'))}},
                                 kHosts);
  EXPECT_EQ(outcome.ending, Ending::kValuesDiffer);
}

TEST(OutcomeTest, AGatherBringsAllPayloadsInOrder) {
  Contributions calls;
  for (int rank = 0; rank < 3; ++rank) {
    calls[rank] = {.name = "rows",
                   .mode = Mode::kGather,
                   .root = 1,
                   .payload = absl::Cord(absl::StrCat("row ", rank))};
  }
  const Outcome outcome = Decide(calls, kHosts);
  EXPECT_EQ(outcome.ending, Ending::kOk);
  EXPECT_EQ(outcome.to, 1);
  EXPECT_EQ(outcome.payloads, (std::vector<absl::Cord>{absl::Cord("row 0"), absl::Cord("row 1"),
                                                       absl::Cord("row 2")}));
}

TEST(OutcomeTest, ABroadcastBringsTheRootsPayloadAlone) {
  Contributions calls;
  for (int rank = 0; rank < 3; ++rank) {
    calls[rank] = {.name = "seed",
                   .mode = Mode::kBroadcast,
                   .root = 2,
                   .payload = absl::Cord(absl::StrCat("of ", rank))};
  }
  const Outcome outcome = Decide(calls, kHosts);
  EXPECT_EQ(outcome.payloads, std::vector<absl::Cord>{absl::Cord("of 2")});
  EXPECT_EQ(outcome.to, -1);
}

TEST(OutcomeTest, NamesWhoWasAbsent) {
  const Outcome outcome = TimedOut({{1, Barrier("save")}}, kHosts);
  EXPECT_EQ(outcome.ending, Ending::kTimeout);
  EXPECT_EQ(outcome.message, "save: not all members came in time; absent: 0@a, 2@c");
}

TEST(OutcomeTest, ATimeOutAmongDifferentCallsSaysBoth) {
  const Outcome outcome = TimedOut({{0, Barrier("save")}, {1, Barrier("restore")}}, kHosts);
  EXPECT_EQ(outcome.ending, Ending::kNameMismatch);
  EXPECT_EQ(outcome.message,
            "members are at different calls: 0@a at barrier \"save\"; 1@b at barrier \"restore\"; "
            "absent: 2@c");
}

TEST(OutcomeTest, NamesFewOfManyRanks) {
  const std::vector<std::string> hosts(100, "h");
  const Outcome outcome = TimedOut({{0, Barrier("save")}}, hosts);
  EXPECT_TRUE(outcome.message.ends_with("16@h and 83 more")) << outcome.message;
}

TEST(OutcomeTest, TheDigestTellsEverythingApart) {
  const Outcome two = {.payloads = {absl::Cord("ab"), absl::Cord("c")}};
  const Outcome other_cut = {.payloads = {absl::Cord("a"), absl::Cord("bc")}};
  const Outcome to_one = {.payloads = {absl::Cord("ab"), absl::Cord("c")}, .to = 0};
  EXPECT_EQ(DigestOf(two), DigestOf(two));
  EXPECT_NE(DigestOf(two), DigestOf(other_cut));
  EXPECT_NE(DigestOf(two), DigestOf(to_one));
  EXPECT_NE(DigestOf(Failure(Ending::kTimeout, "")), DigestOf(Failure(Ending::kMemberLost, "")));
}

TEST(OutcomeTest, WhatCannotBeSentToAllIsTooLarge) {
  const absl::Cord large(std::string(size_t{3} << 20, 'x'));
  Contributions contributions;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 20; ++rank) {
    contributions[rank] = {.name = "load", .mode = Mode::kGather, .root = -1, .payload = large};
    hosts.push_back("h");
  }
  const Outcome outcome = Decide(contributions, hosts);
  EXPECT_EQ(outcome.ending, Ending::kTooLarge);
  EXPECT_EQ(outcome.message,
            "load: 62914560 bytes for each of 20 members are more than 1073741824");
  EXPECT_EQ(StatusOf(outcome).code(), absl::StatusCode::kResourceExhausted);
  for (auto& [rank, each] : contributions) each.root = 0;
  EXPECT_EQ(Decide(contributions, hosts).ending, Ending::kOk) << "one receiver";
}

// Else only the root would learn that its answer was refused.
TEST(OutcomeTest, AnAnswerThatNoMessageTakesIsTooLargeForAll) {
  const Contribution large = {.name = "rows",
                              .mode = Mode::kGather,
                              .root = 0,
                              .payload = absl::Cord(std::string(40, 'x'))};
  const Contributions all = {{0, large}, {1, large}, {2, large}};
  EXPECT_EQ(Decide(all, kHosts, 200).ending, Ending::kOk);
  const Outcome outcome = Decide(all, kHosts, 150);
  EXPECT_EQ(outcome.ending, Ending::kTooLarge);
  EXPECT_EQ(outcome.message, "rows: an answer of 170 bytes is more than 150");
}

}  // namespace
}  // namespace remesh::server::coordination
