// SPDX-License-Identifier: Apache-2.0
// How the controller handles workers that come, go and come back.
#include "server/controller/membership/parked_streams.h"
#include "server/controller/testing/controller_test_world.h"
#include "server/controller/values/assignment_parts.h"

namespace remesh::server {
namespace {

class ControllerWorkersTest : public ControllerTestWorld {
 protected:
  void Want(StreamId stream, const std::string& state) {
    v1::AttachRequest wanted;
    wanted.mutable_state_wanted()->set_state(state);
    Send(stream, wanted);
  }
  void Reload(const LiveOptions& live) {
    Handle(Reconfigure{.call = ++last_call_, .options = std::make_shared<LiveOptions>(live)});
    EXPECT_TRUE(replies_.at(last_call_).ok()) << replies_.at(last_call_).status();
  }
  // Why it was refused; empty: it was not.
  std::string CreateOther(const std::string& host) {
    CreateState create{.request = {}, .placed = Place(SpecOn({host}))};
    create.request.mutable_state()->set_name("jobs/j/states/other");
    const absl::Status status = replies_.at(Ask(std::move(create))).status();
    return status.ok() ? "" : GetErrorInfo(status).reason;
  }
};

// Regression: each Register copied the topology of all hosts, 2.4 ms of it with 10,000.
TEST_F(ControllerWorkersTest, ARegisterCostsTheSameAtAnyNumberOfHosts) {
  // The next host attaches. Returns the number of actions that follow, and the bytes of all hosts
  // in them.
  auto attach_next = [this, next = 0]() mutable {
    v1::Register registration = Identity("host-" + std::to_string(100'000 + next));
    registration.mutable_devices(0)->set_id(100'000 + next++);
    v1::AttachRequest message;
    *message.mutable_register_() = registration;
    Actions actions = controller_->Handle(
        StreamMessage{.stream = ++last_stream_, .message = message, .vouched = false}, now_);
    size_t bytes = 0;
    for (const Action& action : actions) {
      if (const auto* send = std::get_if<SendToWorker>(&action))
        bytes += send->message.ByteSizeLong();
      if (const auto* changed = std::get_if<TopologyChanged>(&action))
        bytes += changed->hosts.size() * sizeof(planner::Host);
    }
    const std::pair<size_t, size_t> cost(actions.size(), bytes);
    Take(std::move(actions));
    return cost;
  };
  const auto first = attach_next();
  EXPECT_GT(first.second, sizeof(planner::Host));
  for (int i = 0; i < 2000; ++i) {
    const auto [actions, bytes] = attach_next();
    ASSERT_EQ(actions, first.first) << "after " << i << " more";
    ASSERT_LE(bytes, first.second + 8) << "after " << i << " more";  // numbers may grow longer
  }
}

TEST_F(ControllerWorkersTest, AHostWithoutShardsIsToldWhenItsTrainerAsks) {
  Attach("a");
  Attach("b");
  Want(2, kState);  // before it exists
  EXPECT_EQ(Count(2, Command::kAssignState), 0);
  Create({"a"});
  ASSERT_EQ(Count(2, Command::kAssignState), 1);
  const v1::Assignment& assignment = sent_[2].back().assign_state().assignment();
  EXPECT_EQ(assignment.state(), kState);
  EXPECT_EQ(assignment.generation(), 1);
  EXPECT_TRUE(assignment.shards().empty());
  EXPECT_FALSE(assignment.committed());
  Want(2, kState);  // and after
  EXPECT_EQ(Count(2, Command::kAssignState), 2);
  Want(1, kState);  // has shards, and was told of them
  ASSERT_EQ(Count(1, Command::kAssignState), 1);
  EXPECT_EQ(sent_[1].back().assign_state().assignment().shards_size(), 1);
}

// Regression: a host that asked for 100,000 states that no one created made all other hosts wait in
// vain.
TEST_F(ControllerWorkersTest, AHostThatWantsTooManyStatesHoldsUpNoOther) {
  for (const char* host : {"a", "b", "z"}) Attach(host);
  for (int i = 0; i < 100'000; ++i) Want(3, "jobs/z/states/" + std::to_string(i));
  Want(2, kState);
  Create({"a"});
  EXPECT_EQ(Count(2, Command::kAssignState), 1);  // was: 0
  EXPECT_EQ(Count(3, Command::kAssignState), 0);
  Want(3, kState);
  EXPECT_EQ(Count(3, Command::kAssignState), 1) << "asked again it is told";
}

TEST_F(ControllerWorkersTest, ALostWorkerIsNoLongerWaitedFor) {
  Attach("a");
  Attach("b");
  Want(2, kState);
  Handle(StreamEnded{2});
  Attach("b");
  Create({"a"});
  EXPECT_EQ(Count(3, Command::kAssignState), 0);
}

TEST_F(ControllerWorkersTest, AHostThatGoesAwayIsWarnedOfByName) {
  Attach("a");
  Create({"a"});
  Handle(StreamEnded{1});
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("host a is away"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find(kState), std::string::npos) << warnings_[0];
}

// A heartbeat is no sign of life while the worker's strand is stuck.
TEST_F(ControllerWorkersTest, AHeartbeatWithoutProgressIsNoSignOfLife) {
  Attach("a");
  v1::AttachRequest beat;
  for (const auto& [progress, alive] : {std::pair{1, true}, {2, true}, {2, true}, {2, false}}) {
    now_.steady += std::chrono::seconds(3);
    beat.mutable_heartbeat()->set_progress(progress);
    Send(1, beat);
    Handle(Tick{});
    EXPECT_EQ(controller_->gauges().workers_alive == 1, alive) << progress;
  }
}

// The server was stopped for longer than lost_after: no worker was silent.
TEST_F(ControllerWorkersTest, TheServersOwnPauseIsNoWorkersSilence) {
  options_.tick_interval = std::chrono::milliseconds(250);
  StartServer();
  const StreamId a = Attach("a");
  now_.steady += std::chrono::seconds(12);  // before the first tick
  Handle(Tick{});
  EXPECT_FALSE(closed_.contains(a));
  for (int i = 0; i < 40; ++i) {
    now_.steady += options_.tick_interval;
    Handle(Tick{});
  }
  EXPECT_EQ(Refused(a), "WORKER_LOST");
}

// Regression: a stream on which no register came stayed open forever.
TEST_F(ControllerWorkersTest, AStreamWithoutARegisterIsClosedAfterThirtySeconds) {
  const StreamId silent = 100, ends = 101;
  Handle(StreamOpened{silent});
  Handle(StreamOpened{ends});
  Handle(StreamOpened{last_stream_ + 1});
  const StreamId a = Attach("a");
  Handle(StreamEnded{ends});
  v1::AttachRequest beat;
  for (int second = 1; second <= 31; ++second) {
    EXPECT_FALSE(closed_.contains(silent)) << second;
    now_.steady += std::chrono::seconds(1);
    beat.mutable_heartbeat()->set_progress(second);
    Send(a, beat);
    Handle(Tick{});
  }
  EXPECT_EQ(Refused(silent), "NOT_REGISTERED");
  EXPECT_FALSE(closed_.contains(ends));
  EXPECT_FALSE(closed_.contains(a));
}

// A tick alone tells that the server stood still; what comes before it must not see the time pass.
TEST(OwnPauseTest, TimePassesForNoWorkerBeforeTheTickThatReportsAPause) {
  using std::chrono::milliseconds;
  OwnPause pause(milliseconds(250));
  pause.Start(milliseconds(1000));
  EXPECT_EQ(pause.Between(milliseconds(1200)), milliseconds(1200));
  EXPECT_EQ(pause.Between(milliseconds(9000)), milliseconds(1500));
  EXPECT_EQ(pause.OnTick(milliseconds(9000)), milliseconds(7750));
  EXPECT_EQ(pause.Between(milliseconds(9100)), milliseconds(9100));
  EXPECT_EQ(OwnPause(Timestamp(0)).Between(milliseconds(9000)), milliseconds(9000));
}

TEST_F(ControllerWorkersTest, TheServersOwnPauseDoesNotCloseAStreamWithoutARegister) {
  options_.tick_interval = std::chrono::milliseconds(250);
  StartServer();
  const StreamId silent = 100;
  Handle(StreamOpened{silent});
  now_.steady += std::chrono::seconds(60);
  Handle(Tick{});
  EXPECT_FALSE(closed_.contains(silent));
}

// 2,000,000 shards of one host would not fit into one message.
TEST_F(ControllerWorkersTest, LargeAssignmentsComeInParts) {
  v1::AttachResponse message;
  v1::Assignment& whole = *message.mutable_assign_state()->mutable_assignment();
  whole.set_state(kState);
  whole.set_state_uid("u");
  whole.set_generation(3);
  for (int i = 0; i < 1000; ++i) whole.add_arrays()->set_name(std::string(50, 'a'));
  for (int i = 0; i < 10000; ++i) whole.add_shards()->set_device(i + 1);
  const v1::Assignment before = whole;
  EXPECT_EQ(CutAssignment(message, size_t{1} << 30).size(), 1u);
  v1::Assignment joined;
  const auto parts = CutAssignment(message, 10000);
  EXPECT_GT(parts.size(), 10u);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_LT(parts[i].ByteSizeLong(), 11000u);
    EXPECT_EQ(parts[i].has_assign_state(), i + 1 == parts.size());
    const v1::Assignment& part = parts[i].has_assign_state()
                                     ? parts[i].assign_state().assignment()
                                     : parts[i].assignment_part().assignment();
    EXPECT_EQ(part.generation(), 3);
    joined.MergeFrom(part);
  }
  EXPECT_EQ(joined.SerializeAsString(), before.SerializeAsString());
}

// Regression: a host in a rack that no longer exists made the planner's threads look for the rack
// and throw.
TEST_F(ControllerWorkersTest, ATopologyThatChangesWhileAHostIsAdmittedIsChecked) {
  LiveOptions live{.join_token_hashes = {HashSecret("token")}};
  v1::TopologyRules rules;
  v1::Domain& rack = *rules.add_domains();
  rack.set_name("rack");
  rack.set_egress_bytes_per_second(1e9);
  rack.set_ingress_bytes_per_second(1e9);
  live.topology_rules = TopologyRules::Make(rules).value();
  Reload(live);
  v1::Register registration = Identity("a");
  registration.set_parent("rack");
  registration.set_join_token("token");
  disk_stops_ = true;
  const StreamId a = Attach(registration);
  live.topology_rules = TopologyRules();
  Reload(live);
  disk_stops_ = false;
  Write();
  ASSERT_TRUE(closed_.contains(a));
  EXPECT_EQ(GetErrorInfo(closed_[a]).metadata["field"], "register.parent") << closed_[a];
  EXPECT_EQ(controller_->gauges().workers_alive, 0);
}

TEST_F(ControllerWorkersTest, ADrainedHostTakesNoNewStateUntilItIsTakenBack) {
  Attach("a");
  const v1::State before = Create({"a"});
  disk_stops_ = true;
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/a");
  const CallId drained = Ask(drain);
  EXPECT_FALSE(replies_.contains(drained));  // it is not on disk yet
  disk_stops_ = false;
  Write();
  EXPECT_TRUE(replies_.at(drained).ok());
  EXPECT_TRUE(replies_.at(Ask(drain)).ok());  // said twice
  EXPECT_EQ(CreateOther("a"), "HOST_DRAINED");
  StartServer();
  Attach("a");
  EXPECT_EQ(CreateOther("a"), "HOST_DRAINED");
  EXPECT_EQ(Get().uid(), before.uid());
  const auto listed =
      std::get<v1::ListWorkersResponse>(*replies_.at(Ask(v1::ListWorkersRequest())));
  EXPECT_TRUE(listed.workers(0).drained());
  EXPECT_EQ(controller_->gauges().workers_drained, 1);
  v1::UndrainWorkerRequest undrain;
  undrain.set_name("workers/a");
  EXPECT_TRUE(replies_.at(Ask(undrain)).ok());
  EXPECT_EQ(CreateOther("a"), "");
  StartServer();
  EXPECT_EQ(controller_->gauges().workers_drained, 0);
}

TEST_F(ControllerWorkersTest, ADrainedHostThatIsForgottenComesBackUndrained) {
  const StreamId a = Attach("a");
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/a");
  EXPECT_TRUE(replies_.at(Ask(drain)).ok());
  Handle(StreamEnded{a});
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/a");
  EXPECT_TRUE(replies_.at(Ask(forget)).ok());
  Attach("a");
  EXPECT_EQ(CreateOther("a"), "");
  EXPECT_EQ(disk_.count("drained/a"), 0u);
}

// Regression: the stream that waited replaced the later one, and thereby ended the worker's
// process.
TEST_F(ControllerWorkersTest, AHostThatDialsAgainWhileItIsAdmittedKeepsItsLaterStream) {
  options_.join_token_hashes = {HashSecret("token")};
  StartServer();
  v1::Register registration = Identity("a");
  registration.set_join_token("token");
  disk_stops_ = true;
  const StreamId earlier = Attach(registration);
  const StreamId later = Attach(registration);
  EXPECT_EQ(Refused(earlier), "SUPERSEDED");
  EXPECT_EQ(Count(later, Command::kWelcome), 0);  // the host is not on disk yet
  disk_stops_ = false;
  Write();
  EXPECT_EQ(Refused(later), "");  // was: SUPERSEDED
  EXPECT_EQ(Count(later, Command::kWelcome), 1);
}

// Otherwise the host would be attached without being known, and its shards would rely on an
// unproven worker.
TEST_F(ControllerWorkersTest, AHostThatIsForgottenWhileItIsAdmittedAttachesAgain) {
  options_.join_token_hashes = {HashSecret("token")};
  StartServer();
  v1::Register registration = Identity("a");
  registration.set_join_token("token");
  Handle(StreamEnded{Attach(registration)});
  disk_stops_ = true;
  registration.set_process_nonce(std::string(16, '2'));
  const StreamId forgotten = Attach(registration);
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/a");
  const CallId asked = Ask(forget);
  disk_stops_ = false;
  Write();
  EXPECT_TRUE(replies_.at(asked).ok());
  EXPECT_EQ(Refused(forgotten), "WORKER_FORGOTTEN");  // was: attached
  EXPECT_EQ(controller_->gauges().workers_alive, 0);
  const StreamId again = Attach(registration);
  EXPECT_EQ(Refused(again), "");
  EXPECT_EQ(disk_.count("host/a"), 1u);
}

// Otherwise the state would be on an unknown host, whose name any worker could take.
TEST_F(ControllerWorkersTest, AHostOfAStateThatIsBeingCreatedIsNotForgotten) {
  const StreamId a = Attach("a");
  disk_stops_ = true;
  CreateState create{.request = {}, .placed = Place(SpecOn({"a"}))};
  create.request.mutable_state()->set_name(kState);
  Ask(create);
  Handle(StreamEnded{a});
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/a");
  const auto reason = [&] { return GetErrorInfo(replies_.at(Ask(forget)).status()).reason; };
  EXPECT_EQ(reason(), "WORKER_HOLDS_SHARDS");  // was: OK
  disk_stops_ = false;
  Write();
  EXPECT_EQ(reason(), "WORKER_HOLDS_SHARDS");
}

// Regression: while a disk stood still, an unproven worker could fill the memory, because its
// messages were kept without limit.
TEST_F(ControllerWorkersTest, WhatIsSaidWhileTheJournalIsWaitedForIsBounded) {
  disk_stops_ = true;
  StreamId talks[2];
  for (StreamId& stream : talks) {
    v1::Register unknown = Identity(&stream == talks ? "m" : "b");
    unknown.set_highest_epoch(controller_->epoch());
    stream = Attach(unknown);
  }
  v1::AttachRequest small, large;
  small.mutable_heartbeat();
  for (size_t i = 0; i < ParkedStreams::kMessagesMax; ++i) Send(talks[0], small);
  EXPECT_EQ(Refused(talks[0]), "");
  Send(talks[0], small);
  EXPECT_EQ(Refused(talks[0]), "WORKER_TOO_FAST");
  large.mutable_failed()->mutable_error()->set_message(std::string(ParkedStreams::kBytesMax, 'x'));
  Send(talks[1], large);
  EXPECT_EQ(Refused(talks[1]), "WORKER_TOO_FAST");
  disk_stops_ = false;
  Write();
  EXPECT_EQ(controller_->gauges().workers, 0) << "none of them is left";
}

// The manifests of all states that a host may hold exceed this limit, and come in one message.
TEST_F(ControllerWorkersTest, ALongRegisterMayWaitForTheFirstWriteOfAServer) {
  disk_stops_ = true;
  StartServer();
  v1::Register known = Identity("a");
  for (int i = 0; i < 20'000; ++i) *known.add_manifests() = Manifest(std::string(40, 'u'), i + 1);
  ASSERT_GT(known.ByteSizeLong(), ParkedStreams::kBytesMax);
  const StreamId a = Attach(known);
  EXPECT_EQ(Count(a, Command::kWelcome), 0);
  disk_stops_ = false;
  Write();
  EXPECT_EQ(Refused(a), "");
  EXPECT_EQ(Count(a, Command::kWelcome), 1);
}

TEST_F(ControllerWorkersTest, OnlyAKnownHostIsDrained) {
  v1::DrainWorkerRequest drain;
  drain.set_name("workers/nobody");
  EXPECT_EQ(GetErrorInfo(replies_.at(Ask(drain)).status()).reason, "WORKER_NOT_FOUND");
  drain.set_name("nobody");
  EXPECT_EQ(replies_.at(Ask(drain)).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace remesh::server
