// SPDX-License-Identifier: Apache-2.0
// What an agent reports of lasting connections, and what it does with them. The transport of these
// tests only records its calls.
#include <gtest/gtest.h>

#include "base/error.h"
#include "service/rpc/error_info.h"
#include "worker/agent/testing/agent_fixture.h"

namespace remesh::worker {
namespace {

// The calls to one host's transport, over all of its attempts.
struct Lastings {
  std::mutex mutex;
  std::vector<Lasting> opened;
  std::vector<std::string> awaited, dropped;
  bool gone = false;  // the connections to be reused are not there
  bool rests = true;
  int rested = 0;
  int kept = 0;
};

class LastingGroup : public PeerGroup {
 public:
  LastingGroup(std::unique_ptr<PeerGroup> group, Lastings* lastings)
      : group_(std::move(group)), lastings_(lastings) {}
  void Send(int peer, const MessageTag& tag, std::span<const std::byte> data, Done done) override {
    group_->Send(peer, tag, data, std::move(done));
  }
  void Receive(int peer, const MessageTag& tag, std::span<std::byte> buffer, Done done) override {
    group_->Receive(peer, tag, buffer, std::move(done));
  }
  bool Rest() override {
    std::lock_guard lock(lastings_->mutex);
    ++lastings_->rested;
    group_->Abort();
    return lastings_->rests;
  }
  void Keep() override {
    std::lock_guard lock(lastings_->mutex);
    ++lastings_->kept;
    group_->Abort();
  }
  void Abort() override { group_->Abort(); }
  bool quiesced() const override { return group_->quiesced(); }

 private:
  std::unique_ptr<PeerGroup> group_;
  Lastings* const lastings_;
};

class LastingTransport : public Transport {
 public:
  LastingTransport(std::unique_ptr<Transport> transport, Lastings* lastings)
      : transport_(std::move(transport)), lastings_(lastings) {}
  std::string_view name() const override { return transport_->name(); }
  bool windowed() const override { return true; }
  std::string address() const override { return transport_->address(); }
  absl::StatusOr<std::unique_ptr<PeerGroup>> Open(int self, std::vector<Peer> peers) override {
    return OpenLasting(self, std::move(peers), {});
  }
  absl::StatusOr<std::unique_ptr<PeerGroup>> OpenLasting(int self, std::vector<Peer> peers,
                                                         const Lasting& lasting) override {
    std::lock_guard lock(lastings_->mutex);
    lastings_->opened.push_back(lasting);
    if (lasting.reused && lastings_->gone)
      return MakeError(absl::StatusCode::kFailedPrecondition, "gone", {"COMMUNICATORS_GONE", {}});
    auto group = transport_->Open(self, std::move(peers));
    if (!group.ok()) return group.status();
    return std::make_unique<LastingGroup>(*std::move(group), lastings_);
  }
  void AwaitLasting(const std::string& name) override {
    std::lock_guard lock(lastings_->mutex);
    EXPECT_TRUE(lastings_->opened.empty()) << "it comes before all that takes time";
    lastings_->awaited.push_back(name);
  }
  void DropLasting(const std::string& name) override {
    std::lock_guard lock(lastings_->mutex);
    lastings_->dropped.push_back(name);
  }
  std::chrono::milliseconds keeps_for() const override { return std::chrono::seconds(90); }
  bool Progress() override { return transport_->Progress(); }
  void Wait(std::chrono::milliseconds timeout) override { transport_->Wait(timeout); }
  void Wake() override { transport_->Wake(); }

 private:
  std::unique_ptr<Transport> transport_;
  Lastings* const lastings_;
};

class AgentCommunicatorsTest : public AgentTest {
 protected:
  AgentCommunicatorsTest() {
    wrap_ = [this](int host, std::unique_ptr<Transport> transport) {
      return std::make_unique<LastingTransport>(std::move(transport), &lastings_[host]);
    };
    StartBoth();
    ReadyToMove();
  }
  ~AgentCommunicatorsTest() override {
    for (auto& host : hosts_) host.reset();  // before what their transports write to
  }

  void PrepareWith(const std::string& name, bool reuse) {
    Prepare([&](v1::Prepare& prepare) {
      for (v1::PeerEntry& peer : *prepare.mutable_peers()) peer.set_incarnation(7);
      prepare.mutable_communicators()->set_name(name);
      prepare.mutable_communicators()->set_reuse(reuse);
    });
  }
  void UntilVerified(const std::string& name, bool reuse) {
    PrepareWith(name, reuse);
    for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kPrepared));
    Transfer();
    Verify();
  }
  v1::KeptCommunicators KeptByHost0() {
    Command(0, [&](v1::AttachResponse& c) { SetCommit(c); });
    const auto said = hosts_[0]->WaitFor(v1::AttachRequest::kCommitted);
    return said ? said->committed().communicators() : v1::KeptCommunicators();
  }
  // Waits until the data thread has done what it was told.
  bool Within20Seconds(const std::function<bool(Lastings&)>& done) {
    for (int i = 0; i < 20'000; ++i) {
      {
        std::lock_guard lock(lastings_[0].mutex);
        if (done(lastings_[0])) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  Lastings lastings_[2];
};

TEST_F(AgentCommunicatorsTest, CommittedSaysWhatIsKeptAndForHowLong) {
  UntilVerified("x", false);
  const v1::KeptCommunicators said = KeptByHost0();
  EXPECT_EQ(said.name(), "x");
  EXPECT_EQ(said.kept_for().seconds(), 90);
  EXPECT_TRUE(Within20Seconds([](Lastings& lastings) { return lastings.kept == 1; }));
  std::lock_guard lock(lastings_[0].mutex);
  ASSERT_EQ(lastings_[0].opened.size(), 1u);
  EXPECT_EQ(lastings_[0].opened[0].name, "x");
  EXPECT_EQ(lastings_[0].opened[0].among, "host-0\n7\n1\nhost-1\n7\n1\n");
  EXPECT_FALSE(lastings_[0].opened[0].reused);
}

TEST_F(AgentCommunicatorsTest, APlannerThatNamesNoneHearsOfNone) {
  UntilVerified("", false);
  EXPECT_EQ(KeptByHost0().name(), "");
}

TEST_F(AgentCommunicatorsTest, WhatDoesNotRestIsNotSaidToBeKept) {
  lastings_[0].rests = false;
  UntilVerified("x", false);
  EXPECT_EQ(KeptByHost0().name(), "");
}

TEST_F(AgentCommunicatorsTest, WhatRestsIsNotKeptWhenTheAttemptEndsBadly) {
  UntilVerified("x", false);
  Abort();
  std::lock_guard lock(lastings_[0].mutex);
  EXPECT_EQ(lastings_[0].rested, 1);
  EXPECT_EQ(lastings_[0].kept, 0);
}

TEST_F(AgentCommunicatorsTest, ThoseThatAreGoneFailTheAttemptAndTheSourceStays) {
  for (Lastings& lastings : lastings_) lastings.gone = true;
  PrepareWith("x", true);
  for (auto& host : hosts_) {
    const auto failed = host->WaitFor(v1::AttachRequest::kFailed);
    ASSERT_TRUE(failed);
    EXPECT_EQ(GetErrorInfo(service::StatusFromProto(failed->failed().error())).reason,
              "COMMUNICATORS_GONE");
  }
  Abort();
  for (auto& host : hosts_) EXPECT_TRUE(host->Right(*host->GetShards(1)));
  ++attempt_;
  UntilVerified("y", false);
  EXPECT_EQ(KeptByHost0().name(), "y");
}

// Regression test: reserving took longer than connections are kept, so the attempt that was to use
// them found them gone.
TEST_F(AgentCommunicatorsTest, ThoseThatAPrepareNamesAreAwaited) {
  PrepareWith("x", true);
  for (auto& host : hosts_) ASSERT_TRUE(host->WaitFor(v1::AttachRequest::kPrepared));
  Abort();
  std::lock_guard lock(lastings_[0].mutex);
  EXPECT_EQ(lastings_[0].awaited, std::vector<std::string>{"x"});
  EXPECT_EQ(lastings_[0].dropped, std::vector<std::string>{"x"})
      << "no command will name them again";
}

TEST_F(AgentCommunicatorsTest, ThoseThatAreMadeAgainAreNotAwaited) {
  UntilVerified("x", false);
  EXPECT_EQ(KeptByHost0().name(), "x");
  EXPECT_TRUE(Within20Seconds([](Lastings& lastings) { return lastings.kept == 1; }));
  std::lock_guard lock(lastings_[0].mutex);
  EXPECT_TRUE(lastings_[0].awaited.empty());
  EXPECT_TRUE(lastings_[0].dropped.empty());
}

TEST_F(AgentCommunicatorsTest, ADropReachesTheTransport) {
  Command(0, [](v1::AttachResponse& c) { c.mutable_drop_communicators()->set_name("x"); });
  EXPECT_TRUE(Within20Seconds(
      [](Lastings& lastings) { return lastings.dropped == std::vector<std::string>{"x"}; }));
}

}  // namespace
}  // namespace remesh::worker
