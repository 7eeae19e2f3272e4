// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/peer_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "worker/execution/attempt_devices.h"

namespace remesh::worker {
namespace {

using Addresses = std::vector<std::pair<std::string, std::string>>;  // transport, address

const LinkNames kGpus{"nccl", "tcp", "tcp+aes-256-gcm"};
const LinkNames kHostMemory{"", "tcp", "tcp+aes-256-gcm"};
const Addresses kOfGpus = {{"nccl", "g"}, {"tcp", "g"}}, kOfHostMemory = {{"tcp", "h"}};

v1::Prepare PrepareOf(const std::vector<Addresses>& hosts, int self) {
  v1::Prepare prepare;
  prepare.set_self(self);
  prepare.mutable_communicators()->set_name("c");
  for (const Addresses& addresses : hosts) {
    v1::PeerEntry& peer = *prepare.add_peers();
    peer.set_host("host-" + std::to_string(prepare.peers_size() - 1));
    for (const auto& [transport, address] : addresses) {
      auto& message = *peer.add_data_addresses();
      message.set_transport(transport);
      message.set_address(address);
    }
  }
  return prepare;
}

TEST(PeerLinksTest, HostsWithGpusUseTheirLinkAmongThemselvesAndStreamToOthers) {
  const std::vector<Addresses> hosts = {kOfGpus, kOfGpus, kOfHostMemory};
  const auto of_gpus = PeersOf(PrepareOf(hosts, 0), kGpus);
  ASSERT_TRUE(of_gpus.ok()) << of_gpus.status();
  EXPECT_TRUE((*of_gpus)[0].windowed);
  EXPECT_TRUE((*of_gpus)[1].windowed);
  EXPECT_FALSE((*of_gpus)[2].windowed);
  EXPECT_EQ((*of_gpus)[2].address, "h");
  const auto of_host_memory = PeersOf(PrepareOf(hosts, 2), kHostMemory);
  ASSERT_TRUE(of_host_memory.ok()) << of_host_memory.status();
  for (const Peer& peer : *of_host_memory) EXPECT_FALSE(peer.windowed);
  EXPECT_EQ((*of_host_memory)[0].address, "g");
}

TEST(PeerLinksTest, EncryptedDataNeverGoesByALinkThatDoesNotEncrypt) {
  const Addresses encrypted = {{"nccl", "g"}, {"tcp", "g"}, {"tcp+aes-256-gcm", "g"}};
  const auto peers = PeersOf(PrepareOf({encrypted, encrypted}, 0), kGpus);
  ASSERT_TRUE(peers.ok()) << peers.status();
  for (const Peer& peer : *peers) {
    EXPECT_TRUE(peer.encrypted);
    EXPECT_FALSE(peer.windowed);
  }
}

// A table that lists only encrypted streams is of no use to a host without encryption.
TEST(PeerLinksTest, AHostWithoutALinkInCommonIsNamed) {
  const Addresses encrypted = {{"tcp+aes-256-gcm", "g"}};
  const auto peers = PeersOf(PrepareOf({kOfHostMemory, encrypted}, 0), {"", "tcp", ""});
  EXPECT_EQ(GetErrorInfo(peers.status()).reason, "NO_COMMON_TRANSPORT");
  EXPECT_EQ(GetErrorInfo(peers.status()).metadata.at("host"), "host-1");
}

// An older server names none beside hosts without GPUs, and none are named where GPUs exchange
// nothing: then nothing is to be connected, and what is kept stays.
TEST(PeerLinksTest, WithoutNamedCommunicatorsGpusAreReachedByStreamBesideOthers) {
  v1::Prepare prepare = PrepareOf({kOfGpus, kOfGpus, kOfHostMemory}, 0);
  prepare.clear_communicators();
  const auto windowed = [&] {
    const auto peers = PeersOf(prepare, kGpus);
    EXPECT_TRUE(peers.ok()) << peers.status();
    return peers.ok() ? std::ranges::count(*peers, true, &Peer::windowed) : -1;
  };
  EXPECT_EQ(windowed(), 0);
  prepare.mutable_peers()->RemoveLast();
  EXPECT_EQ(windowed(), 2);
}

// A table of some hosts of an attempt with 5 hosts of 2 devices, of which 1, 2 and 4 have GPUs.
v1::Prepare PartOf(const std::vector<int>& hosts, int own, int place) {
  const std::vector<int> ranks = {-1, 0, 2, -1, 4};
  std::vector<Addresses> addresses;
  for (const int host : hosts) addresses.push_back(ranks[host] < 0 ? kOfHostMemory : kOfGpus);
  const auto self = std::ranges::find(hosts, own) - hosts.begin();
  v1::Prepare prepare = PrepareOf(addresses, static_cast<int>(self));
  prepare.set_hosts(5);
  for (size_t i = 0; i < hosts.size(); ++i) {
    v1::PeerEntry& peer = *prepare.mutable_peers(static_cast<int>(i));
    peer.set_first_device(2 * hosts[i]);
    peer.set_first_rank(std::max(ranks[hosts[i]], 0));
    for (const int device : {0, 1}) peer.add_device_ids(100 + 2 * hosts[i] + device);
  }
  v1::Communicators& communicators = *prepare.mutable_communicators();
  communicators.set_hosts(3);
  communicators.set_ranks(6);
  communicators.set_place(place);
  communicators.set_among("digest");
  return prepare;
}

absl::StatusOr<Lasting> LastingIn(const v1::Prepare& prepare) {
  const auto peers = PeersOf(prepare, kGpus);
  EXPECT_TRUE(peers.ok()) << peers.status();
  return LastingOf(prepare, *peers);
}

std::string BadField(const v1::Prepare& prepare) {
  const auto info = GetErrorInfo(LastingIn(prepare).status());
  const auto field = info.metadata.find("field");
  return field == info.metadata.end() ? "" : field->second;
}

TEST(PeerLinksTest, ATableOfSomeHostsTellsWhoTheGroupIs) {
  const auto lasting = LastingIn(PartOf({1, 3, 4}, 4, 2));
  ASSERT_TRUE(lasting.ok()) << lasting.status();
  EXPECT_EQ(lasting->among, "digest");
  EXPECT_EQ(lasting->whole.hosts, 3);
  EXPECT_EQ(lasting->whole.ranks, 6);
  EXPECT_EQ(lasting->whole.place, 2);
  EXPECT_TRUE(lasting->whole.beside_streams);
}

TEST(PeerLinksTest, AGroupNeedsItsFirstHostWhichKnowsAll) {
  EXPECT_TRUE(LastingIn(PartOf({1, 2, 4}, 1, 0)).ok());
  EXPECT_TRUE(LastingIn(PartOf({1, 2}, 2, 1)).ok());
  EXPECT_EQ(BadField(PartOf({2, 4}, 4, 2)), "communicators.place");
  EXPECT_EQ(BadField(PartOf({1, 2}, 1, 0)), "communicators.hosts");
  EXPECT_EQ(BadField(PartOf({1, 2, 4}, 1, 1)), "communicators.place");
  EXPECT_EQ(BadField(PartOf({1, 2}, 2, 0)), "communicators.place");
  EXPECT_EQ(BadField(PartOf({1, 2}, 2, 3)), "communicators.place");
}

TEST(PeerLinksTest, RanksRiseWithinTheGroup) {
  v1::Prepare prepare = PartOf({1, 2, 4}, 4, 2);
  prepare.mutable_peers(1)->set_first_rank(1);
  EXPECT_EQ(BadField(prepare), "peers[1].first_rank");
  prepare.mutable_peers(1)->set_first_rank(5);
  EXPECT_EQ(BadField(prepare), "peers[1].first_rank");
  prepare.mutable_peers(1)->set_first_rank(-1);
  EXPECT_EQ(BadField(prepare), "peers[1].first_rank");
  prepare.mutable_communicators()->set_ranks(0);
  EXPECT_EQ(BadField(prepare), "peers[0].first_rank");
}

// Two hosts with GPUs that know only each other do not take that for an attempt of such hosts
// alone.
TEST(PeerLinksTest, WithoutNamedCommunicatorsATableOfSomeHostsUsesStreams) {
  v1::Prepare prepare = PartOf({1, 2}, 1, 0);
  prepare.clear_communicators();
  const auto peers = PeersOf(prepare, kGpus);
  ASSERT_TRUE(peers.ok()) << peers.status();
  EXPECT_EQ(std::ranges::count(*peers, true, &Peer::windowed), 0);
  EXPECT_TRUE(LastingIn(prepare).ok());
}

TEST(PeerLinksTest, HostsOfOneAttemptNumberADeviceAlike) {
  const auto some = AttemptDevices::Make(PartOf({1, 3, 4}, 4, 2));
  const auto others = AttemptDevices::Make(PartOf({3, 4}, 3, -1));
  ASSERT_TRUE(some.ok() && others.ok());
  EXPECT_EQ(some->numbers(), (std::vector<uint32_t>{2, 3, 6, 7, 8, 9}));
  EXPECT_EQ(others->numbers(), (std::vector<uint32_t>{6, 7, 8, 9}));
  EXPECT_EQ(some->numbers()[some->OrdinalOf(108)], others->numbers()[others->OrdinalOf(108)]);
  v1::Prepare overlaps = PartOf({1, 3, 4}, 4, 2);
  overlaps.mutable_peers(1)->set_first_device(3);
  const absl::Status refused = AttemptDevices::Make(overlaps).status();
  EXPECT_EQ(GetErrorInfo(refused).metadata["field"], "peers[1].first_device");
}

// A worker of a version that lists NCCL alone still exchanges with one that lists both.
TEST(PeerLinksTest, AHostThatListsNcclAloneIsReachedByIt) {
  const auto peers = PeersOf(PrepareOf({kOfGpus, {{"nccl", "g"}}}, 0), kGpus);
  ASSERT_TRUE(peers.ok()) << peers.status();
  EXPECT_TRUE((*peers)[1].windowed);
}

}  // namespace
}  // namespace remesh::worker
