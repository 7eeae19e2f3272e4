// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/peer_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

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

// A worker of a version that lists NCCL alone still exchanges with one that lists both.
TEST(PeerLinksTest, AHostThatListsNcclAloneIsReachedByIt) {
  const auto peers = PeersOf(PrepareOf({kOfGpus, {{"nccl", "g"}}}, 0), kGpus);
  ASSERT_TRUE(peers.ok()) << peers.status();
  EXPECT_TRUE((*peers)[1].windowed);
}

}  // namespace
}  // namespace remesh::worker
