// SPDX-License-Identifier: Apache-2.0
// Deletions: what the journal gets of them, who is asked, and what waiting callers are answered.
#include "server/controller/states/deletions.h"

#include <iostream>

#include "server/controller/testing/states_test_world.h"

namespace remesh::server {
namespace {

using Hosts = std::vector<std::string>;

constexpr char kUid[] = "11111111-2222-4333-8444-555555555555";

class DeletionsTest : public StatesTestWorld {
 protected:
  // Deletes what a state of this uid left on the hosts; the deletion is on disk at once.
  StateKey Delete(CallId call, const std::set<std::string>& hosts, bool wait = true,
                  const std::string& uid = kUid) {
    const StateKey key{.name = kState, .uid = uid};
    const Deletion deletion = states_.Delete({.call = call, .wait = wait}, kState, {{key, hosts}});
    Write(deletion.records);
    states_.OnDeleted(deletion.then, out_);
    deletions_.Answer(deletion.then, out_);
    return key;
  }
  // The hosts that the call's answer names.
  Hosts Absent(CallId call) {
    const auto replies = Replies(call);
    EXPECT_EQ(replies.size(), 1u);
    if (replies.empty()) return {"no answer"};
    const auto& hosts = std::get<v1::DeleteStateResponse>(*replies[0]).absent_hosts();
    return {hosts.begin(), hosts.end()};
  }
  void Leave(StreamId stream) {
    for (const HostFact& fact : membership_.EndStream(stream, now_, out_)) {
      if (const auto* away = std::get_if<HostAway>(&fact)) states_.OnHostAway(*away, out_);
    }
  }
  // The host attaches again; it reports to hold this of the state, or nothing.
  void Return(const std::string& host, const std::string& uid = "") {
    v1::Register back = Registration(host);
    if (!uid.empty()) *back.add_manifests() = Manifest(kState, uid, 1);
    Attach(back);
    deletions_.OnRegistered(back, out_);
    if (!uid.empty()) deletions_.OnReported(host, {.name = kState, .uid = uid});  // by Settle()
  }

  void Write(const std::vector<Record>& records) {
    ++transactions_;
    for (const Record& record : records) {
      bytes_ += record.key.size() + record.bytes.value_or("").size();
      if (record.bytes) {
        disk_[record.key] = *record.bytes;
      } else {
        disk_.erase(record.key);
      }
    }
  }
  // Writes what waits, and what follows from that.
  void WriteAll() {
    while (!Did<Persist>().empty()) {
      const std::vector<Persist> all = Did<Persist>();
      Clear();
      for (const Persist& persist : all) {
        Write(persist.records);
        deletions_.OnConfirmationsSaved(out_);
      }
    }
  }
  std::map<StateKey, Tombstone> OnDisk() {
    std::map<StateKey, Tombstone> tombstones;
    EXPECT_TRUE(ReadTombstones(disk_, tombstones).ok());
    return tombstones;
  }

  Deletions& deletions_ = states_.deletions();
  std::map<std::string, std::string> disk_;
  size_t bytes_ = 0;  // keys and values handed to Persist
  int transactions_ = 0;
};

TEST_F(DeletionsTest, ADeletedStateIsRememberedUntilItsHostsConfirm) {
  Attach("a");
  const StateKey key{.name = kState, .uid = Create({"a"})};
  Clear();
  const Deletion deletion = states_.Delete({.call = 7}, kState, {{key, {"a"}}});
  EXPECT_TRUE(Find()->deleting);
  EXPECT_EQ(deletion.records.size(), 7u);
  states_.OnDeleted(deletion.then, out_);
  EXPECT_EQ(Find(), nullptr);
  EXPECT_TRUE(states_.tombstones().contains(key));
  EXPECT_EQ(states_.tombstones().WaitingFor("a").size(), 1u);
  deletions_.OnForgotten("a", {.name = kState, .uid = "another"}, out_);
  EXPECT_EQ(states_.tombstones().WaitingFor("a").size(), 1u);
  deletions_.OnForgotten("a", key, out_);
  EXPECT_TRUE(states_.tombstones().WaitingFor("a").empty());
  EXPECT_TRUE(states_.tombstones().contains(key));
}

// What a host is about to make is not reported yet, so it is asked either way.
TEST_F(DeletionsTest, AHostIsAskedThoughItReportsNothing) {
  Attach("a");
  Delete(1, {"a", "b"});
  EXPECT_EQ(Sent(1, v1::AttachResponse::kForgetState), 1);
  Return("b");
  EXPECT_EQ(Sent(2, v1::AttachResponse::kForgetState), 1);
  EXPECT_EQ(states_.tombstones().WaitingFor("b").size(), 1u) << "until it answers";
  Return("b", kUid);  // Settle() tells it
  EXPECT_EQ(Sent(3, v1::AttachResponse::kForgetState), 0);
}

// It was 13,410 bytes a host, in 2,049 transactions: each confirmation wrote all hosts that were
// left.
TEST_F(DeletionsTest, ADeletionCostsLittleForEachHost) {
  constexpr size_t kHosts = 2048;
  const StateKey key{.name = "jobs/job-of-a-name/states/save.000001.00000001", .uid = kUid};
  std::set<std::string> hosts;
  for (size_t i = 0; i < kHosts; ++i) hosts.insert(absl::StrCat("worker-", 10000 + i));
  const Deletion deletion = states_.Delete({.call = 7}, key.name, {{key, hosts}});
  Write(deletion.records);
  EXPECT_EQ(OnDisk().at(key).hosts, hosts);
  states_.OnDeleted(deletion.then, out_);
  for (const std::string& host : hosts) deletions_.OnForgotten(host, key, out_);
  WriteAll();
  std::cout << "deletion on " << kHosts << " hosts: " << bytes_ << " bytes to Persist, "
            << bytes_ / kHosts << " a host, in " << transactions_ << " transactions\n";
  EXPECT_LE(bytes_, 400 * kHosts);
  EXPECT_EQ(transactions_, 3) << "the deletion, the first confirmation, and all that came after";
  EXPECT_EQ(OnDisk().at(key).hosts, std::set<std::string>());
  EXPECT_EQ(disk_.size(), 1u);
}

TEST_F(DeletionsTest, ConfirmationsThatComeDuringATransactionAreTheNextOne) {
  const StateKey key = Delete(1, {"a", "b", "c"});
  for (const char* host : {"a", "b", "c"}) deletions_.OnForgotten(host, key, out_);
  ASSERT_EQ(Did<Persist>().size(), 1u);
  EXPECT_EQ(Did<Persist>()[0].records.size(), 1u);
  Clear();
  deletions_.OnConfirmationsSaved(out_);
  ASSERT_EQ(Did<Persist>().size(), 1u);
  EXPECT_EQ(Did<Persist>()[0].records.size(), 2u);
  Clear();
  deletions_.OnConfirmationsSaved(out_);
  EXPECT_TRUE(Did<Persist>().empty());
}

// Else a tombstone that is made again would be removed by what was to be forgotten of the first.
TEST_F(DeletionsTest, WhatIsToBeForgottenIsWrittenBeforeTheNextDeletion) {
  const StateKey key = Delete(1, {"a", "b"});
  deletions_.OnForgotten("a", key, out_);
  deletions_.OnForgotten("b", key, out_);  // waits
  const Deletion again = states_.Delete({.call = 2}, kState, {{key, {"b"}}});
  WriteAll();
  Write(again.records);
  EXPECT_EQ(OnDisk().at(key).hosts, std::set<std::string>{"b"});
}

// What an absent host holds of a deleted state may be deleted again. Regression: the journal kept a
// row of a host that only the first deletion named, and was not read once the state's row was gone.
TEST_F(DeletionsTest, ADeletionOfWhatWasDeletedWaitsForTheHostsOfBoth) {
  const StateKey key = Delete(1, {"a", "b"}, /*wait=*/false);
  Delete(2, {"a", "c"}, /*wait=*/false);
  EXPECT_EQ(Absent(2), (Hosts{"a", "b", "c"}));
  EXPECT_EQ(OnDisk().at(key).hosts, states_.tombstones().Find(key)->hosts);
  for (const char* host : {"a", "b", "c"}) deletions_.OnForgotten(host, key, out_);
  WriteAll();
  EXPECT_EQ(OnDisk().at(key).hosts, std::set<std::string>());
  Write(NoTombstoneRecords(key, *states_.tombstones().Find(key)));
  EXPECT_TRUE(disk_.empty());
}

TEST_F(DeletionsTest, ATombstoneOfAnEarlierReleaseIsReadAndCutIntoRows) {
  const StateKey key{.name = kState, .uid = kUid};
  disk_[absl::StrCat("deleted/", kState, "@", kUid)] = "7\na\nb\nc";
  disk_[absl::StrCat("deleted/", kState, "@")] = "6";
  deletions_.Restore({.tombstones = OnDisk()});
  EXPECT_TRUE(states_.tombstones().contains({.name = kState, .uid = ""}));
  deletions_.OnForgotten("b", key, out_);
  WriteAll();
  EXPECT_EQ(disk_.size(), 4u);
  EXPECT_EQ(OnDisk().at(key).hosts, (std::set<std::string>{"a", "c"}));
  EXPECT_EQ(OnDisk().at(key).order, 7u);
  EXPECT_FALSE(OnDisk().at(key).in_one_row);
  deletions_.OnForgotten("a", key, out_);
  deletions_.OnForgotten("c", key, out_);
  WriteAll();
  EXPECT_EQ(disk_.size(), 2u);
  Delete(1, {"d"}, /*wait=*/false, "later");
  EXPECT_EQ(OnDisk().at({.name = kState, .uid = "later"}).order, 8u);
}

class TombstonesTest : public testing::Test {
 protected:
  static StateKey KeyOf(int number) { return {"s", absl::StrCat(number)}; }
};

TEST_F(TombstonesTest, TheOldestGoWhenTheyWaitForTooManyHosts) {
  Tombstones tombstones({.states = 100, .hosts = 4});
  tombstones.Add(KeyOf(1), tombstones.Make({"a", "b"}));
  tombstones.Add(KeyOf(2), tombstones.Make({}));
  tombstones.Add(KeyOf(3), tombstones.Make({"a", "b"}));
  const auto records = tombstones.Add(KeyOf(4), tombstones.Make({"a"}));
  EXPECT_EQ(records.size(), 3u) << "a row for the state and one for each host";
  EXPECT_FALSE(tombstones.contains(KeyOf(1)));
  for (int number : {2, 3, 4}) EXPECT_TRUE(tombstones.contains(KeyOf(number))) << number;
  // The newest stays, however many it waits for.
  tombstones.Add(KeyOf(5), tombstones.Make({"a", "b", "c", "d", "e"}));
  EXPECT_EQ(tombstones.WaitingFor("a"), std::set<StateKey>{KeyOf(5)});
  EXPECT_TRUE(tombstones.contains(KeyOf(2)));
}

TEST_F(TombstonesTest, TheOrderOfDeletionOutlivesARestart) {
  Tombstones before({.states = 10, .hosts = 10});
  std::map<StateKey, Tombstone> all;
  for (int number : {3, 1, 2}) {
    all[KeyOf(number)] = before.Make({"a"});
    before.Add(KeyOf(number), all[KeyOf(number)]);
  }
  Tombstones after({.states = 3, .hosts = 10});
  after.Restore(all);
  after.Add(KeyOf(9), after.Make({"a"}));
  EXPECT_FALSE(after.contains(KeyOf(3)));
  after.Add(KeyOf(8), after.Make({"a"}));
  EXPECT_FALSE(after.contains(KeyOf(1)));
  EXPECT_TRUE(after.contains(KeyOf(2)));
}

TEST_F(DeletionsTest, AWaitingCallIsAnsweredWhenTheLastAttachedHostHasConfirmed) {
  Attach("a");
  Attach("b");
  const StateKey key = Delete(1, {"z", "a", "c", "b"});
  EXPECT_TRUE(Replies(1).empty());
  deletions_.OnForgotten("a", key, out_);
  deletions_.OnForgotten("a", key, out_);  // twice
  EXPECT_TRUE(Replies(1).empty());
  deletions_.OnForgotten("b", {.name = kState, .uid = "another"}, out_);
  EXPECT_TRUE(Replies(1).empty());
  deletions_.OnForgotten("b", key, out_);
  EXPECT_EQ(Absent(1), (Hosts{"c", "z"}));
}

TEST_F(DeletionsTest, ACallThatDoesNotWaitIsAnsweredAtOnceAndNamesWhoIsAway) {
  Attach("b");
  Delete(1, {"c", "b", "a"}, /*wait=*/false);
  EXPECT_EQ(Absent(1), (Hosts{"a", "c"}));
}

TEST_F(DeletionsTest, AHostThatLeavesIsAbsentAndOneThatReturnsIsWaitedForAgain) {
  Attach("a");
  Attach("b");
  const StateKey key = Delete(1, {"a", "b"});
  Leave(2);
  EXPECT_TRUE(Replies(1).empty());
  Return("b", kUid);
  deletions_.OnForgotten("a", key, out_);
  EXPECT_TRUE(Replies(1).empty()) << "b is here and has it";
  Leave(3);
  EXPECT_EQ(Absent(1), Hosts{"b"});
}

// A host that attaches again before its first stream has ended never leaves.
TEST_F(DeletionsTest, AHostWithANewStreamIsWaitedForStill) {
  Attach("a");
  const StateKey key = Delete(1, {"a"});
  for (const HostFact& fact : Attach("a")) states_.OnHostAway(std::get<HostAway>(fact), out_);
  deletions_.OnRegistered(Registration("a"), out_);
  EXPECT_TRUE(Replies(1).empty());
  EXPECT_EQ(Sent(2, v1::AttachResponse::kForgetState), 1);
  deletions_.OnForgotten("a", key, out_);
  EXPECT_EQ(Absent(1), Hosts{});
}

TEST_F(DeletionsTest, AHostThatTurnsOutToHaveSomethingIsWaitedFor) {
  Attach("a");
  const StateKey key = Delete(1, {"a"});
  Return("x", kUid);
  deletions_.OnForgotten("a", key, out_);
  EXPECT_TRUE(Replies(1).empty());
  deletions_.OnForgotten("x", key, out_);
  EXPECT_EQ(Absent(1), Hosts{});
  WriteAll();
  EXPECT_EQ(OnDisk().at(key).hosts, std::set<std::string>());
}

// A call is repeated when its answer was lost.
TEST_F(DeletionsTest, DeletingAgainHasTheSameAnswerWhileHostsHaveNotConfirmed) {
  Attach("a");
  const StateKey key = Delete(1, {"a", "b"});
  EXPECT_FALSE(deletions_.Join({.call = 2}, kState)) << "it is on disk";
  EXPECT_TRUE(deletions_.JoinPast({.call = 2, .wait = true}, {.name = kState, .uid = ""}, out_));
  EXPECT_TRUE(deletions_.JoinPast({.call = 3}, {.name = kState, .uid = ""}, out_));
  EXPECT_EQ(Absent(3), Hosts{"b"});
  EXPECT_TRUE(Replies(2).empty());
  deletions_.OnForgotten("a", key, out_);
  EXPECT_EQ(Absent(1), Hosts{"b"});
  EXPECT_EQ(Absent(2), Hosts{"b"});
  EXPECT_TRUE(deletions_.JoinPast({.call = 4, .wait = true}, {.name = kState, .uid = ""}, out_));
  EXPECT_EQ(Absent(4), Hosts{"b"});
  deletions_.OnForgotten("b", key, out_);
  EXPECT_FALSE(deletions_.JoinPast({.call = 5, .wait = true}, {.name = kState, .uid = ""}, out_));
  EXPECT_FALSE(deletions_.JoinPast({.call = 6}, {.name = "jobs/j/states/other", .uid = ""}, out_));
}

TEST_F(DeletionsTest, DeletingAgainBeforeTheDeletionIsOnDiskJoinsIt) {
  const StateKey key{.name = kState, .uid = kUid};
  EXPECT_FALSE(deletions_.Join({.call = 1}, kState));
  const Deletion deletion = states_.Delete({.call = 1}, kState, {{key, {"b", "a"}}});
  EXPECT_TRUE(deletions_.Join({.call = 2, .wait = true}, kState));
  EXPECT_TRUE(deletions_.Join({.call = 3}, kState));
  EXPECT_FALSE(deletions_.Join({.call = 4}, "jobs/j/states/other"));
  states_.OnDeleted(deletion.then, out_);
  deletions_.Answer(deletion.then, out_);
  for (const CallId call : {1, 2, 3}) EXPECT_EQ(Absent(call), (Hosts{"a", "b"})) << call;
}

TEST_F(DeletionsTest, ACallerThatLeavesChangesNothingForOthers) {
  Attach("a");
  const StateKey key = Delete(1, {"a"});
  deletions_.JoinPast({.call = 2, .wait = true}, {.name = kState, .uid = ""}, out_);
  deletions_.DropCall(1);
  deletions_.DropCall(1);
  deletions_.DropCall(77);
  deletions_.OnForgotten("a", key, out_);
  EXPECT_TRUE(Replies(1).empty());
  EXPECT_EQ(Absent(2), Hosts{});
}

// Regression: such a call was kept until the hosts had confirmed.
TEST_F(DeletionsTest, ACallerThatLeavesBeforeTheDeletionIsOnDiskWaitsForNoHost) {
  Attach("a");
  const StateKey key{.name = kState, .uid = kUid};
  const Deletion deletion = states_.Delete({.call = 1, .wait = true}, kState, {{key, {"a"}}});
  EXPECT_TRUE(deletions_.Join({.call = 2, .wait = true}, kState));
  EXPECT_TRUE(deletions_.Join({.call = 3, .wait = true}, kState));
  deletions_.DropCall(1);
  deletions_.DropCall(2);
  states_.OnDeleted(deletion.then, out_);
  deletions_.Answer(deletion.then, out_);
  deletions_.EndCalls(absl::AbortedError("ended"), out_);
  EXPECT_TRUE(Replies(1).empty());
  EXPECT_TRUE(Replies(2).empty());
  EXPECT_EQ(Replies(3).size(), 1u);
}

// Regression: found by seed 2776 of server_simulation_test. An attempt that was being aborted left
// something there.
TEST_F(DeletionsTest, ACallWaitsForAHostThatAttachesWhileTheDeletionIsWritten) {
  const StateKey key{.name = kState, .uid = kUid};
  const Deletion deletion = states_.Delete({.call = 1, .wait = true}, kState, {{key, {"a"}}});
  v1::Register late = Registration("b");
  *late.add_manifests() = Manifest(kState, kUid, 3);
  Attach(late);
  states_.OnDeleted(deletion.then, out_);
  deletions_.Answer(deletion.then, out_);
  EXPECT_TRUE(Replies(1).empty());
  deletions_.OnForgotten("b", key, out_);
  EXPECT_EQ(Absent(1), Hosts{"a"});
}

// Regression: such hosts were not waited for, neither by the earlier call nor by the later.
TEST_F(DeletionsTest, CallsWaitForHostsThatALaterDeletionKnowsOf) {
  for (const char* host : {"a", "b"}) Attach(host);
  const StateKey state = Delete(1, {"a"});
  Delete(2, {"a", "b"});
  deletions_.OnForgotten("a", state, out_);
  for (const CallId call : {1, 2}) EXPECT_TRUE(Replies(call).empty());
  deletions_.OnForgotten("b", state, out_);
  for (const CallId call : {1, 2}) EXPECT_EQ(Absent(call), Hosts{});
}

TEST_F(DeletionsTest, ACallWaitsForAllStatesOfTheName) {
  Attach("a");
  Attach("b");
  const StateKey one{.name = kState, .uid = "1"}, two{.name = kState, .uid = "2"};
  const Deletion deletion = states_.Delete({.call = 1, .wait = true}, kState,
                                           {{one, {"a", "c"}}, {two, {"a", "b", "d"}}});
  states_.OnDeleted(deletion.then, out_);
  deletions_.Answer(deletion.then, out_);
  deletions_.OnForgotten("a", two, out_);
  deletions_.OnForgotten("b", two, out_);
  EXPECT_TRUE(Replies(1).empty());
  deletions_.OnForgotten("a", one, out_);
  EXPECT_EQ(Absent(1), (Hosts{"c", "d"}));
}

}  // namespace
}  // namespace remesh::server
