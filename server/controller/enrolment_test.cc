// SPDX-License-Identifier: Apache-2.0
#include "server/controller/controller_test_world.h"

namespace remesh {
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
  v1::Register WithOtherSecret(v1::Register registration) {
    registration.set_host_secret(std::string(32, 'x'));
    return registration;
  }
  void Pass(int seconds) { now_.steady += std::chrono::seconds(seconds); }
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
  // The next process: its record may be lost or say anything, its clock does not matter.
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
  Say(a, wanted);
  EXPECT_TRUE(sent_[a].empty());
  Write();
  EXPECT_EQ(sent_[a].size(), 1u);
  EXPECT_EQ(HostRecords(), 1u);
}

TEST_F(EnrolmentTest, AForgedRegisterDoesNotReplaceALiveHost) {
  const StreamId a = Attach("a");
  Create({"a"});
  v1::Register forged = WithOtherSecret(Identity("a"));
  forged.set_incarnation(1000);
  const StreamId stranger = Attach(forged);
  EXPECT_EQ(Refused(stranger), "HOST_SECRET");
  EXPECT_TRUE(sent_[stranger].empty());
  EXPECT_EQ(Refused(a), "");
  EXPECT_EQ(Get().phase(), v1::State::BUILDING);
}

TEST_F(EnrolmentTest, AHostThatLostItsSecretComesBackByToken) {
  UseTokens();
  const StreamId a = Attach(WithToken("a"));
  Create({"a"});
  EXPECT_EQ(Refused(Attach(WithOtherSecret(WithToken("a")))), "HOST_SECRET");  // alive
  Handle(StreamEnded{a});
  EXPECT_EQ(Refused(Attach(WithOtherSecret(WithToken("a")))), "HOST_SECRET");  // not lost yet
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

TEST_F(EnrolmentTest, AnUnknownHostNeedsAToken) {
  UseTokens();
  EXPECT_EQ(Refused(Attach("a")), "JOIN_TOKEN");
  EXPECT_EQ(Refused(Attach(WithToken("a", "guess"))), "JOIN_TOKEN");
  EXPECT_EQ(Refused(Attach(WithToken("a"))), "");
  EXPECT_EQ(HostRecords(), 1u);
}

TEST_F(EnrolmentTest, StrangersLeaveNothingBehind) {
  for (int i = 0; i < 50; ++i) {
    v1::Register registration = Identity("s");
    registration.set_host("stranger-" + std::to_string(i));
    const StreamId stream = Attach(registration);
    EXPECT_EQ(Refused(stream), "");
    Handle(StreamEnded{stream});
  }
  EXPECT_EQ(controller_->TakeCensus().workers, 0);
  EXPECT_EQ(HostRecords(), 0u);
  // Nor do the device ids that they claimed.
  EXPECT_EQ(Refused(Attach("s")), "");
}

TEST_F(EnrolmentTest, HostsAreBounded) {
  const EnrolmentRules rules{.join_token_hashes = {}, .lost_after = {}, .hosts_max = 3};
  EXPECT_TRUE(Enrol(Identity("a"), nullptr, false, 2, {}, rules).ok());
  EXPECT_EQ(GetErrorInfo(Enrol(Identity("a"), nullptr, false, 3, {}, rules).status()).reason,
            "TOO_MANY_HOSTS");
}

}  // namespace
}  // namespace remesh
