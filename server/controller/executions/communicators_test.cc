// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/communicators.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace remesh::server {
namespace {

using std::chrono::seconds;

class CommunicatorsTest : public testing::Test {
 protected:
  static std::vector<v1::PeerEntry> Peers(const std::string& hosts,
                                          const char* transport = "nccl") {
    std::vector<v1::PeerEntry> peers;
    for (const char host : hosts) {
      v1::PeerEntry& peer = peers.emplace_back();
      peer.set_host(std::string(1, host));
      peer.set_incarnation(1);
      peer.add_device_ids(host);
      peer.add_data_addresses()->set_transport(transport);
    }
    return peers;
  }
  Communicators::Named Name(const std::string& execution, const std::vector<v1::PeerEntry>& peers) {
    return communicators_.Name(execution, peers, now_, random_);
  }
  void Committed(const std::string& execution, const std::string& hosts, const std::string& name,
                 int kept_seconds = 100) {
    v1::KeptCommunicators kept;
    kept.set_name(name);
    kept.mutable_kept_for()->set_seconds(kept_seconds);
    for (const char host : hosts)
      communicators_.OnCommitted(execution, std::string(1, host), kept, now_);
  }
  // Made by execution "1" of a and b, and kept by both.
  std::string Kept() {
    const std::string name = Name("1", Peers("ab")).communicators.name();
    Committed("1", "ab", name);
    return name;
  }
  bool Reused(const std::string& execution, const std::vector<v1::PeerEntry>& peers) {
    return Name(execution, peers).communicators.reuse();
  }

  uint64_t last_random_ = 0;
  RandomBits random_ = [this] { return ++last_random_; };
  Timestamp now_ = seconds(1);
  Communicators communicators_;
};

// Of the hosts, only these have NCCL.
std::vector<v1::PeerEntry> WithNccl(std::vector<v1::PeerEntry> peers, const std::string& hosts) {
  for (v1::PeerEntry& peer : peers) {
    if (hosts.find(peer.host()) == std::string::npos)
      peer.mutable_data_addresses(0)->set_transport("tcp");
  }
  return peers;
}

TEST_F(CommunicatorsTest, AreNamedWhereSeveralExchangeByNccl) {
  EXPECT_FALSE(Name("1", Peers("ab")).communicators.name().empty());
  EXPECT_TRUE(Name("2", Peers("ab", "tcp")).communicators.name().empty());
  EXPECT_TRUE(Name("3", Peers("a")).communicators.name().empty());
  EXPECT_TRUE(Name("4", WithNccl(Peers("ab"), "a")).communicators.name().empty());
  EXPECT_FALSE(Name("5", WithNccl(Peers("abc"), "ac")).communicators.name().empty());
}

TEST_F(CommunicatorsTest, ServeNothingIfNoHostWithNcclReceives) {
  const auto peers = WithNccl(Peers("abc"), "ab");
  EXPECT_TRUE(Communicators::Serve(peers, {false, true, true}));
  EXPECT_FALSE(Communicators::Serve(peers, {false, false, true}));
}

TEST_F(CommunicatorsTest, BelongToTheHostsWithNcclAlone) {
  const auto peers = WithNccl(Peers("abcd"), "bd");
  const std::string name = Name("1", peers).communicators.name();
  Committed("1", "bd", name);
  EXPECT_TRUE(Reused("2", peers)) << "a and c have none to keep";
  Committed("2", "bd", name);
  EXPECT_TRUE(Reused("3", WithNccl(Peers("bcd"), "bd"))) << "the same two connect";
}

TEST_F(CommunicatorsTest, ServeAgainOnceEveryHostHasKeptThem) {
  const std::string name = Name("1", Peers("ab")).communicators.name();
  Committed("1", "a", name);
  const Communicators::Named second = Name("2", Peers("ab"));
  EXPECT_FALSE(second.communicators.reuse()) << "b has not said that it keeps them";
  EXPECT_NE(second.communicators.name(), name);
  Committed("2", "ab", second.communicators.name());
  const Communicators::Named third = Name("3", Peers("ab"));
  EXPECT_TRUE(third.communicators.reuse());
  EXPECT_EQ(third.communicators.name(), second.communicators.name());
  EXPECT_TRUE(third.drops.empty());
  Committed("3", "ab", third.communicators.name());
  EXPECT_TRUE(Reused("4", Peers("ab")));
}

TEST_F(CommunicatorsTest, NeverServeTwoAtOnceNorAfterAnExecutionThatFailed) {
  Kept();
  EXPECT_TRUE(Reused("2", Peers("ab")));
  EXPECT_FALSE(Reused("3", Peers("ab"))) << "no host has said that 2 ended well";
}

TEST_F(CommunicatorsTest, WhatIsSaidLateOfAnEarlierExecutionCountsNothing) {
  const std::string name = Kept();
  EXPECT_TRUE(Reused("2", Peers("ab")));
  Committed("1", "ab", name);
  EXPECT_FALSE(Reused("3", Peers("ab")));
}

TEST_F(CommunicatorsTest, WhatAStrangerSaysCountsNothing) {
  const std::string name = Name("1", Peers("ab")).communicators.name();
  Committed("1", "ac", name);
  Committed("1", "b", "another name");
  EXPECT_FALSE(Reused("2", Peers("ab")));
}

TEST_F(CommunicatorsTest, ServeOnlyTheSameLivesAndDevicesOfTheSameHosts) {
  Kept();
  std::vector<v1::PeerEntry> other_life = Peers("ab");
  other_life[1].set_incarnation(2);
  EXPECT_FALSE(Reused("2", other_life));
  Kept();
  std::vector<v1::PeerEntry> more_devices = Peers("ab");
  more_devices[0].add_device_ids(7);
  EXPECT_FALSE(Reused("3", more_devices));
  Kept();
  EXPECT_FALSE(Reused("4", Peers("abc")));
}

TEST_F(CommunicatorsTest, AHostKeepsOneSetOnly) {
  const std::string name = Kept();
  const Communicators::Named other = Name("2", Peers("bc"));
  EXPECT_FALSE(other.communicators.reuse());
  ASSERT_EQ(other.drops.size(), 1u) << "b ends what was not named by itself";
  EXPECT_EQ(other.drops[0].host, "a");
  EXPECT_EQ(other.drops[0].name, name);
  EXPECT_FALSE(Reused("3", Peers("ab")));
}

TEST_F(CommunicatorsTest, EndWithAHostThatIsAway) {
  const std::string name = Kept();
  std::vector<std::string> told;
  for (const Communicators::Drop& drop : communicators_.OnHostAway("b")) {
    EXPECT_EQ(drop.name, name);
    told.push_back(drop.host);
  }
  EXPECT_EQ(told, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(communicators_.OnHostAway("b").empty());
  EXPECT_FALSE(Reused("2", Peers("ab"))) << "also when it is back, in the same life";
}

TEST_F(CommunicatorsTest, AreNotNamedLongerThanTheyAreKept) {
  const std::string name = Name("1", Peers("ab")).communicators.name();
  Committed("1", "a", name, 100);
  Committed("1", "b", name, 10);
  now_ += seconds(11);
  EXPECT_FALSE(Reused("2", Peers("ab")));
  Kept();
  now_ += seconds(99);
  EXPECT_TRUE(Reused("3", Peers("ab")));
}

TEST_F(CommunicatorsTest, HowLongTheyAreKeptIsBelievedOnlySoFar) {
  const std::string name = Name("1", Peers("ab")).communicators.name();
  v1::KeptCommunicators kept;
  kept.set_name(name);
  kept.mutable_kept_for()->set_seconds(INT64_MAX);
  for (const char* host : {"a", "b"}) communicators_.OnCommitted("1", host, kept, now_);
  now_ += seconds(25 * 3600);
  EXPECT_FALSE(Reused("2", Peers("ab")));
}

}  // namespace
}  // namespace remesh::server
