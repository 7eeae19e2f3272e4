// SPDX-License-Identifier: Apache-2.0
#include "server/controller/testing/controller_test_world.h"

namespace remesh::server {
namespace {

class EnrolmentTest : public ControllerTestWorld {
 protected:
  int64_t Incarnation(StreamId stream) { return sent_[stream][0].welcome().incarnation(); }
  void UseTokens() {
    options_.join_token_hashes = {HashSecret("open sesame")};
    StartServer();
  }
  v1::Register WithToken(const std::string& host, const std::string& token = "open sesame") {
    v1::Register registration = Identity(host);
    registration.set_join_token(token);
    return registration;
  }
  void Pass(int seconds) { now_.steady += std::chrono::seconds(seconds); }
  std::vector<int64_t> Ids(StreamId stream) {
    const auto& ids = sent_[stream].at(0).welcome().device_ids();
    return {ids.begin(), ids.end()};
  }
  v1::Register WithoutIds(const std::string& host, int devices) {
    v1::Register registration = Identity(host);
    registration.clear_devices();
    for (int i = 0; i < devices; ++i) registration.add_devices()->set_id(kAssignedDeviceId);
    return registration;
  }
  size_t HostRecords() {
    size_t count = 0;
    for (const auto& [key, bytes] : disk_) count += key.rfind("host/", 0) == 0;
    return count;
  }
};

TEST_F(EnrolmentTest, IncarnationsComeFromTheServerAndRise) {
  v1::Register a = Identity("a");
  const StreamId first = Attach(a);
  EXPECT_EQ(Incarnation(first), 1);
  Create({"a"});                           // from here on the journal knows it
  const StreamId reconnected = Attach(a);  // its Welcome was lost
  EXPECT_EQ(Incarnation(reconnected), 1);
  EXPECT_EQ(Refused(first), "SUPERSEDED");
  a.set_incarnation(1);
  EXPECT_EQ(Incarnation(Attach(a)), 1);
  // The next process: its record may be lost or have any contents, and its clock does not matter.
  EXPECT_EQ(Incarnation(Attach("a")), 2);
  EXPECT_EQ(Refused(Attach(a)), "SUPERSEDED");  // the older process
  StartServer();
  v1::Register later = Identity("a");
  later.set_last_incarnation(7);  // of a journal that was lost
  EXPECT_EQ(Incarnation(Attach(later)), 8);
}

TEST_F(EnrolmentTest, AnIncarnationIsOnDiskBeforeTheWelcome) {
  UseTokens();
  disk_stops_ = true;
  const StreamId a = Attach(WithToken("a"));
  v1::AttachRequest wanted;
  wanted.mutable_state_wanted()->set_state(kState);
  Send(a, wanted);
  EXPECT_TRUE(sent_[a].empty());
  Write();
  EXPECT_EQ(sent_[a].size(), 1u);
  EXPECT_EQ(HostRecords(), 1u);
}

// A certificate that names the host takes the place of token and secret.
TEST_F(EnrolmentTest, ACertificateVouchesForAHost) {
  UseTokens();
  EXPECT_EQ(Refused(Attach("a")), "JOIN_TOKEN");
  const StreamId first = Attach(Identity("a"), /*vouched=*/true);
  EXPECT_EQ(Incarnation(first), 1);
  EXPECT_EQ(HostRecords(), 1u);
  v1::Register again = WithOtherSecret(Identity("a"));
  EXPECT_EQ(Refused(Attach(again)), "HOST_SECRET");
  EXPECT_EQ(Incarnation(Attach(again, /*vouched=*/true)), 2);
  EXPECT_EQ(Refused(first), "SUPERSEDED");
}

TEST_F(EnrolmentTest, AForgedRegisterDoesNotReplaceALiveHost) {
  const StreamId a = Attach("a");
  Create({"a"});
  v1::Register forged = WithOtherSecret(Identity("a"));
  forged.set_incarnation(1000);
  const StreamId unknown = Attach(forged);
  EXPECT_EQ(Refused(unknown), "HOST_SECRET");
  EXPECT_TRUE(sent_[unknown].empty());
  EXPECT_EQ(Refused(a), "");
  EXPECT_EQ(Get().phase(), v1::State::BUILDING);
}

TEST_F(EnrolmentTest, AHostThatLostItsSecretComesBackByToken) {
  UseTokens();
  const StreamId a = Attach(WithToken("a"));
  Create({"a"});
  const auto refusal = [this] {
    const StreamId stream = Attach(WithOtherSecret(WithToken("a")));
    EXPECT_EQ(Refused(stream), "HOST_SECRET");
    return std::string(closed_.at(stream).message());
  };
  EXPECT_NE(refusal().find("is attached"), std::string::npos);
  Handle(StreamEnded{a});
  EXPECT_NE(refusal().find("is away for less than lost_after"), std::string::npos);
  Pass(5);
  EXPECT_EQ(Refused(Attach(WithOtherSecret(WithToken("a", "wrong")))), "JOIN_TOKEN");
  warnings_.clear();
  const StreamId back = Attach(WithOtherSecret(WithToken("a")));
  EXPECT_EQ(Incarnation(back), 2);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("host a"), std::string::npos);
}

TEST_F(EnrolmentTest, WithoutTokensAnOperatorResetsTheHost) {
  const StreamId a = Attach("a");
  Create({"a"});
  v1::ResetWorkerRequest reset;
  reset.set_name("workers/a");
  EXPECT_EQ(GetErrorInfo(replies_.at(Ask(reset)).status()).reason, "WORKER_ALIVE");
  Handle(StreamEnded{a});
  Pass(60);
  EXPECT_EQ(Refused(Attach(WithOtherSecret(Identity("a")))), "HOST_SECRET");
  ASSERT_TRUE(replies_.at(Ask(reset)).ok());  // though it holds shards
  EXPECT_EQ(Refused(Attach(WithOtherSecret(Identity("a")))), "");
}

// Regression: an operator was told that the change was done before it was on disk; if the server
// then died, it was lost.
TEST_F(EnrolmentTest, WhoResetsOrForgetsAHostIsAnsweredWhenThatIsDurable) {
  for (const char* host : {"a", "b"}) Handle(StreamEnded{Attach(Identity(host), /*vouched=*/true)});
  v1::ResetWorkerRequest reset;
  reset.set_name("workers/a");
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/b");
  disk_stops_ = true;
  const CallId asked[] = {Ask(reset), Ask(forget)};
  for (const CallId call : asked) EXPECT_FALSE(replies_.contains(call));  // was: OK
  disk_stops_ = false;
  Write();
  for (const CallId call : asked) EXPECT_TRUE(replies_.at(call).ok());
}

// Regression: the next worker was taken for the host, although the host was alive, and its worker
// ended.
TEST_F(EnrolmentTest, AHostThatIsResetWhileItIsAdmittedProvesItselfAgain) {
  Attach("a");
  Create({"a"});
  StartServer();
  disk_stops_ = true;
  const StreamId reset_stream = Attach("a");
  v1::ResetWorkerRequest reset;
  reset.set_name("workers/a");
  const CallId asked = Ask(reset);
  disk_stops_ = false;
  Write();
  EXPECT_TRUE(replies_.at(asked).ok());
  EXPECT_EQ(Refused(reset_stream), "WORKER_RESET");  // was: attached, without a secret
  const StreamId a = Attach("a");
  EXPECT_EQ(Refused(Attach(WithOtherSecret(Identity("a")))), "HOST_SECRET");
  EXPECT_EQ(Refused(a), "");
}

TEST_F(EnrolmentTest, AnUnknownHostNeedsAToken) {
  UseTokens();
  EXPECT_EQ(Refused(Attach("a")), "JOIN_TOKEN");
  EXPECT_EQ(Refused(Attach(WithToken("a", "guess"))), "JOIN_TOKEN");
  EXPECT_EQ(Refused(Attach(WithToken("a"))), "");
  EXPECT_EQ(HostRecords(), 1u);
}

// Regression: 100,000 manifests of an unproven worker took the strand seconds.
TEST_F(EnrolmentTest, WhoMayAttachIsDecidedBeforeManifestsAreLookedAt) {
  UseTokens();
  v1::Register stranger = Identity("a");
  stranger.add_manifests()->set_state("nowhere");
  EXPECT_EQ(Refused(Attach(stranger)), "JOIN_TOKEN");
  stranger.set_join_token("open sesame");
  const StreamId a = Attach(stranger);
  EXPECT_EQ(GetErrorInfo(closed_[a]).metadata["field"], "register.manifests[0].state");
  Attach(WithToken("a"));
  v1::Register thief = WithOtherSecret(Identity("a"));
  thief.add_attempts()->set_execution("nowhere");
  EXPECT_EQ(Refused(Attach(thief)), "HOST_SECRET");
}

TEST_F(EnrolmentTest, OfAnUnknownHostOnlyWhatIsRememberedIsLookedAt) {
  v1::Register unknown = Identity("z");
  for (int i = 0; i < 1000; ++i) *unknown.add_manifests() = Manifest("u", i + 1);
  unknown.add_manifests()->set_state("nowhere");
  EXPECT_EQ(Refused(Attach(unknown)), "");
  EXPECT_EQ(controller_->gauges().owed_generations, 1000);
}

TEST_F(EnrolmentTest, UnknownHostsLeaveNothingBehind) {
  for (int i = 0; i < 50; ++i) {
    v1::Register registration = Identity("s");
    registration.set_host("unknown-" + std::to_string(i));
    const StreamId stream = Attach(registration);
    EXPECT_EQ(Refused(stream), "");
    Handle(StreamEnded{stream});
  }
  EXPECT_EQ(controller_->gauges().workers, 0);
  EXPECT_EQ(HostRecords(), 0u);
  // Nor do the device ids that they claimed.
  EXPECT_EQ(Refused(Attach("s")), "");
}

// The worker hung up while the epoch that it claimed was on its way to the disk.
TEST_F(EnrolmentTest, AnUnknownHostThatLeavesBeforeItsWelcomeHoldsNoName) {
  disk_stops_ = true;
  v1::Register forged = WithOtherSecret(Identity("n"));
  forged.set_highest_epoch(controller_->epoch());
  Handle(StreamEnded{Attach(forged)});
  Write();
  Pass(3600);
  EXPECT_EQ(Refused(Attach("n")), "");
}

TEST_F(EnrolmentTest, AnUnknownHostsWordDoesNotStopTheService) {
  v1::Register forged = Identity("z");
  forged.mutable_position()->set_leadership("made up");
  EXPECT_EQ(Refused(Attach(forged)), "UNPROVEN_POSITION");
  EXPECT_FALSE(controller_->gauges().journal_behind);
}

TEST_F(EnrolmentTest, AnUnknownHostsDeviceIdsDoNotKeepAHostOut) {
  Attach("a");
  Create({"a"});
  StartServer();
  v1::Register unknown = Identity("z");
  unknown.mutable_devices(0)->set_id('a');
  const StreamId z = Attach(unknown);
  EXPECT_EQ(Refused(Attach("a")), "");
  EXPECT_EQ(Refused(z), "DEVICE_ID_TAKEN");
}

TEST_F(EnrolmentTest, AnUnknownHostsManifestMakesNoStateLost) {
  Attach("a");
  const v1::State made = Create({"a"});
  Seal(1, Manifest(made.uid(), 1));
  Attach("z", {Manifest(made.uid(), 7)});
  EXPECT_EQ(Get().phase(), v1::State::READY);
}

TEST_F(EnrolmentTest, OfAnUnknownHostLittleIsRemembered) {
  std::vector<v1::StateManifest> many(5000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = Manifest("u", static_cast<int64_t>(i + 1));
  Attach("z", many);
  EXPECT_EQ(controller_->gauges().owed_generations, 1000);
}

// Regression: manifests reported one by one, after Register, had no such limit.
TEST_F(EnrolmentTest, OfWhatAnUnknownHostSaysLaterLittleIsRememberedToo) {
  const StreamId z = Attach("z");
  for (int i = 0; i < 1500; ++i) Seal(z, Manifest("u", i + 1));
  EXPECT_EQ(controller_->gauges().owed_generations, 1000);
  Attach("a");
  const std::string uid = Create({"a", "z"}).uid();  // it is relied on now
  Seal(z, Manifest(uid, 1));
  Seal(2, Manifest(uid, 1));
  EXPECT_EQ(Get().phase(), v1::State::READY);
}

TEST_F(EnrolmentTest, WhatAManifestDoesNotHaveIsNotKept) {
  Attach("a");
  v1::StateManifest fat = Manifest(Create({"a"}).uid(), 1);
  fat.GetReflection()->MutableUnknownFields(&fat)->AddLengthDelimited(1000, std::string(5000, 'x'));
  Seal(1, fat);
  EXPECT_EQ(Get().phase(), v1::State::BUILDING);
}

TEST_F(EnrolmentTest, AssignedDeviceIdsAreOnDiskBeforeTheWelcome) {
  disk_stops_ = true;
  const StreamId a = Attach(WithoutIds("a", 2));
  EXPECT_TRUE(sent_[a].empty());
  Write();
  EXPECT_EQ(Ids(a), (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(disk_.contains("device_ids/a"));
}

TEST_F(EnrolmentTest, AssignedDeviceIdsSurviveRestartsInAnyOrder) {
  Attach(WithoutIds("a", 2));
  const StreamId b = Attach(WithoutIds("b", 2));
  EXPECT_EQ(Ids(b), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Ids(Attach(WithoutIds("b", 2))), Ids(b));  // said twice
  StartServer();
  EXPECT_EQ(Ids(Attach(WithoutIds("c", 1))), (std::vector<int64_t>{4}));
  EXPECT_EQ(Ids(Attach(WithoutIds("b", 2))), Ids(b));
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 2))), (std::vector<int64_t>{0, 1}));
}

TEST_F(EnrolmentTest, AssignedAndOwnDeviceIdsDoNotCollide) {
  v1::Register own = Identity("x");
  own.mutable_devices(0)->set_id(1);
  Attach(own);
  const StreamId a = Attach(WithoutIds("a", 2));
  EXPECT_EQ(Ids(a), (std::vector<int64_t>{0, 2}));
  Handle(StreamEnded{a});
  v1::Register thief = Identity("t");
  thief.mutable_devices(0)->set_id(2);  // though its owner is away
  EXPECT_EQ(Refused(Attach(thief)), "DEVICE_ID_TAKEN");
}

TEST_F(EnrolmentTest, AForgottenHostsDeviceIdsGoToNoOtherHost) {
  UseTokens();
  v1::Register a = WithoutIds("a", 2);
  a.set_join_token("open sesame");
  Handle(StreamEnded{Attach(a)});
  v1::ForgetWorkerRequest forget;
  forget.set_name("workers/a");
  ASSERT_TRUE(replies_.at(Ask(forget)).ok());
  EXPECT_FALSE(disk_.contains("device_ids/a"));
  StartServer();
  EXPECT_EQ(Ids(Attach(a)), (std::vector<int64_t>{2, 3}));
}

TEST_F(EnrolmentTest, AnotherNumberOfDevicesIsRefusedWhileTheHostHoldsShards) {
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 1))), (std::vector<int64_t>{0}));
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 2))), (std::vector<int64_t>{0, 1}));
  v1::Register holds = WithoutIds("a", 3);
  *holds.add_manifests() = Manifest("u", 1);
  EXPECT_EQ(Refused(Attach(holds)), "DEVICES_CHANGED");
  Create({"a"});
  EXPECT_EQ(Refused(Attach(WithoutIds("a", 3))), "DEVICES_CHANGED");
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 2))), (std::vector<int64_t>{0, 1}));
  Delete();
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 1))), (std::vector<int64_t>{0}));
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 2))), (std::vector<int64_t>{0, 2}));
}

TEST_F(EnrolmentTest, AHostThatHadIdsOfItsOwnKeepsThemWhileItHoldsShards) {
  Attach("a");
  Create({"a"});
  EXPECT_EQ(Refused(Attach(WithoutIds("a", 1))), "DEVICES_CHANGED");
  Delete();
  EXPECT_EQ(Ids(Attach(WithoutIds("a", 1))), (std::vector<int64_t>{0}));
}

TEST_F(EnrolmentTest, AForgedRegisterGetsNoDeviceIds) {
  Attach("a");
  Create({"a"});
  v1::Register forged = WithOtherSecret(WithoutIds("a", 4096));
  EXPECT_EQ(Refused(Attach(forged)), "HOST_SECRET");
  EXPECT_FALSE(disk_.contains("next_device_id"));
  v1::Register mixed = WithoutIds("b", 2);
  mixed.mutable_devices(1)->set_id(7);
  EXPECT_EQ(GetErrorInfo(closed_[Attach(mixed)]).metadata["field"], "register.devices[1].id");
}

// A server that is behind writes nothing, so ids that it assigns now may be assigned differently
// later.
TEST_F(EnrolmentTest, WhileTheJournalIsBehindNoDeviceIdIsWritten) {
  UseTokens();
  v1::Register later = WithoutIds("a", 1);
  later.set_join_token("open sesame");
  later.mutable_position()->set_leadership("a later one");
  later.mutable_position()->set_sequence(1000);
  EXPECT_EQ(Ids(Attach(later)).size(), 1u);
  ASSERT_TRUE(controller_->gauges().journal_behind);
  EXPECT_FALSE(disk_.contains("device_ids/a"));
}

TEST_F(EnrolmentTest, HostsAreBounded) {
  const EnrolmentRules rules{.join_token_hashes = {}, .lost_after = {}, .hosts_max = 3};
  EXPECT_TRUE(Enrol(Identity("a"), nullptr, false, false, 2, {}, rules).ok());
  EXPECT_EQ(GetErrorInfo(Enrol(Identity("a"), nullptr, false, false, 3, {}, rules).status()).reason,
            "TOO_MANY_HOSTS");
}

}  // namespace
}  // namespace remesh::server
