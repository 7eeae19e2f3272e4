// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/update_state.h"

#include "server/controller/testing/states_test_world.h"

namespace remesh::server {
namespace {

class UpdateStateTest : public StatesTestWorld {
 protected:
  void SetUp() override {
    Attach("a");
    Create({"a"});
    Clear();
  }
  v1::UpdateStateRequest Request(int64_t step, const std::string& label = "") {
    v1::UpdateStateRequest request;
    request.set_name(kState);
    request.set_uid(Find()->uid());
    request.set_step(step);
    if (!label.empty()) (*request.mutable_labels())["label"] = label;
    return request;
  }
  void Update(CallId call, const v1::UpdateStateRequest& request) {
    states_.Update(call, request, out_);
    for (FollowUp& next : out_.TakeFollowUps()) queue_.push_back(std::move(next));
  }
  // The oldest update that is on its way is on disk.
  void Write() {
    states_.OnUpdated(std::get<StateUpdated>(queue_.at(0)), out_);
    queue_.erase(queue_.begin());
  }
  void Seal(const std::string& host = "a") {
    membership_.Hold(host, Manifest(kState, Find()->uid(), 1));
  }
  std::string Refused(CallId call) {
    const auto replies = Replies(call);
    return replies.size() == 1 ? GetErrorInfo(replies[0].status()).reason : "not answered once";
  }
  const v1::State& Answer(CallId call) {
    answer_ = std::get<v1::UpdateStateResponse>(*Replies(call).at(0)).state();
    return answer_;
  }
  v1::State::Phase Phase() { return PhaseOf(*Find(), membership_.workers()); }
  void ReplaceBy(bool write_once, const std::vector<std::string>& hosts) {
    states_.OnDeleted({.name = kState, .gone = {}}, out_);
    CreateState create = Asked(hosts);
    create.request.mutable_state()->set_write_once(write_once);
    states_.OnCreated(std::get<StateCreated>(states_.Create(1, create, now_, out_)->then), out_);
    Clear();
  }

  std::vector<FollowUp> queue_;
  v1::State answer_;
};

TEST_F(UpdateStateTest, AnUpdateIsOnDiskBeforeItCountsAndIsAnswered) {
  Update(7, Request(12, "x"));
  ASSERT_EQ(Did<Persist>().size(), 1u);
  EXPECT_EQ(Did<Persist>()[0].records.size(), 1u);
  EXPECT_TRUE(Replies(7).empty());
  EXPECT_EQ(Find()->declared.step(), 0);
  Write();
  EXPECT_EQ(Answer(7).step(), 12);
  EXPECT_EQ(Answer(7).labels().at("label"), "x");
  Update(8, Request(13));
  Write();
  EXPECT_EQ(Answer(8).labels_size(), 0) << "labels are replaced, not added";
}

// READY implies the step of the last update that was answered.
TEST_F(UpdateStateTest, AStateIsNotReadyWhileAnUpdateIsOnItsWay) {
  Update(7, Request(12));
  Seal();
  EXPECT_EQ(Phase(), v1::State::BUILDING);  // was: READY, with step 0
  Write();
  EXPECT_EQ(Phase(), v1::State::READY);
  EXPECT_EQ(Find()->declared.step(), 12);
}

TEST_F(UpdateStateTest, TheLastOfConcurrentUpdatesCountsInTheOrderOfTheJournal) {
  for (const CallId call : {7, 8, 9}) Update(call, Request(call == 8 ? 20 : 10));
  Seal();
  Write();
  EXPECT_EQ(Phase(), v1::State::BUILDING);
  Write();
  EXPECT_EQ(Answer(8).step(), 20);
  EXPECT_EQ(Phase(), v1::State::BUILDING);
  Write();
  EXPECT_EQ(Answer(9).step(), 10);
  EXPECT_EQ(Phase(), v1::State::READY);
  EXPECT_EQ(Find()->declared.step(), 10);
}

TEST_F(UpdateStateTest, EqualValuesAreOkAtAnyTime) {
  Update(7, Request(12, "x"));
  Update(8, Request(12, "x"));  // not before the first is on disk
  EXPECT_TRUE(Replies(8).empty());
  Write();
  Write();
  EXPECT_EQ(Answer(8).step(), 12);
  Seal();
  Update(9, Request(12, "x"));
  EXPECT_EQ(Answer(9).phase(), v1::State::READY);
  EXPECT_EQ(Did<Persist>().size(), 2u);
}

TEST_F(UpdateStateTest, WhatIsRefusedChangesNothing) {
  v1::UpdateStateRequest other = Request(1), none = Request(1), negative = Request(-1);
  v1::UpdateStateRequest unknown = Request(1), labels = Request(1), id = Request(1);
  other.set_uid("another");
  none.clear_uid();
  unknown.set_name("jobs/j/states/unknown");
  for (int i = 0; i < 65; ++i) (*labels.mutable_labels())[std::to_string(i)] = "";
  id.set_request_id(std::string(257, 'x'));
  const struct {
    v1::UpdateStateRequest request;
    std::string reason, field;
  } kCases[] = {{other, "STATE_REPLACED", "uid"},    {none, "INVALID_FIELD", "uid"},
                {negative, "INVALID_FIELD", "step"}, {labels, "INVALID_FIELD", "labels"},
                {id, "INVALID_FIELD", "request_id"}, {unknown, "NOT_FOUND", ""}};
  CallId call = 10;
  for (const auto& test : kCases) {
    Update(++call, test.request);
    EXPECT_EQ(Refused(call), test.reason) << test.request.ShortDebugString();
    EXPECT_EQ(GetErrorInfo(Replies(call)[0].status()).metadata["field"], test.field);
  }
  Seal();
  Update(++call, Request(1));
  EXPECT_EQ(Refused(call), "STATE_COMMITTED");
  states_.BeginExecution(kState, "jobs/j/executions/e", nullptr);
  Update(++call, Request(1));
  EXPECT_EQ(Refused(call), "STATE_COMMITTED");
  states_.EndExecution({.state = kState, .generation = 2, .target = PlaceOn({"a"})}, out_);
  Update(++call, Request(1));
  EXPECT_EQ(Refused(call), "STATE_COMMITTED");
  EXPECT_EQ(Find()->declared.step(), 0);
  EXPECT_TRUE(Did<Persist>().empty());
}

TEST_F(UpdateStateTest, OnceACommitIsOnItsWayTheStepStays) {
  ReplaceBy(/*write_once=*/true, {"a"});
  Update(7, Request(12));
  Seal();
  states_.CommitWrites({kState}, out_);
  for (FollowUp& next : out_.TakeFollowUps()) queue_.push_back(std::move(next));
  Update(8, Request(13));
  EXPECT_EQ(Refused(8), "STATE_COMMITTED");
  Update(9, Request(12));
  EXPECT_TRUE(Replies(9).empty()) << "the first is not on disk yet";
  Write();
  EXPECT_EQ(Answer(7).step(), 12);
  states_.OnWriteCommitted(std::get<WriteCommitted>(queue_.at(0)), out_);
  queue_.erase(queue_.begin());
  EXPECT_EQ(Phase(), v1::State::READY);
  Write();
  EXPECT_EQ(Answer(9).step(), 12);
}

// Otherwise a stream that broke for a second would cost a save.
TEST_F(UpdateStateTest, AWriteOnceStateIsUpdatedWhileAHostIsAway) {
  Attach("b");
  for (const bool write_once : {true, false}) {
    ReplaceBy(write_once, {"a", "b"});
    membership_.EndStream(membership_.workers().Find("b")->stream, now_, out_);
    ASSERT_EQ(Phase(), v1::State::LOST);
    Update(7, Request(12));
    if (write_once) {
      Write();
      EXPECT_EQ(Answer(7).step(), 12);
      Attach("b");
    } else {
      EXPECT_EQ(Refused(7), "STATE_LOST");  // it may have been READY
    }
  }
}

TEST_F(UpdateStateTest, AStateThatIsBeingDeletedIsNotUpdated) {
  states_.Delete({.call = 6}, kState, {});
  Update(7, Request(12));
  EXPECT_EQ(Refused(7), "STATE_BEING_DELETED");
  EXPECT_TRUE(Did<Persist>().empty());
}

TEST_F(UpdateStateTest, OnAFullDiskOnlyEqualValuesAreOk) {
  journal_.OnPersisted({.sequence = 0, .full = true});
  Update(7, Request(12));
  EXPECT_EQ(Refused(7), "JOURNAL_FULL");
  Update(8, Request(0));
  EXPECT_EQ(Answer(8).step(), 0);
}

}  // namespace
}  // namespace remesh::server
