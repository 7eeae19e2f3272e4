// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/peer_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace remesh::server {
namespace {

// Entries of `hosts` hosts with two devices each; every host in `nccl` lists NCCL.
std::vector<v1::PeerEntry> Peers(int hosts, const std::set<int>& nccl = {}) {
  std::vector<v1::PeerEntry> peers;
  for (int host = 0; host < hosts; ++host) {
    v1::PeerEntry& peer = peers.emplace_back();
    peer.set_host(absl::StrFormat("host-%05d", host));
    peer.set_incarnation(1);
    peer.set_token(absl::StrFormat("token of %05d..", host));
    peer.add_data_addresses()->set_transport("tcp");
    if (nccl.contains(host)) peer.add_data_addresses()->set_transport("nccl");
    for (const int device : {2 * host, 2 * host + 1}) peer.add_device_ids(1000 + device);
  }
  return peers;
}

// Each host exchanges with the one before and the one after it, as in a flat move.
std::vector<std::vector<int32_t>> Chain(int hosts) {
  std::vector<std::vector<int32_t>> exchanges(hosts);
  for (int host = 0; host + 1 < hosts; ++host) {
    exchanges[host].push_back(host + 1);
    exchanges[host + 1].push_back(host);
  }
  return exchanges;
}

v1::Communicators Named(const std::string& name) {
  v1::Communicators communicators;
  communicators.set_name(name);
  return communicators;
}

PeerTable Table(int hosts, const std::set<int>& nccl = {}) {
  return PeerTable(Peers(hosts, nccl), Chain(hosts), std::vector<bool>(hosts, true),
                   Named(nccl.empty() ? "" : "n"));
}

v1::Prepare PrepareFor(const PeerTable& table, int host) {
  v1::Prepare prepare;
  table.NameIn(prepare, host);
  return prepare;
}

// The numbers of the hosts that are named.
std::string Names(const v1::Prepare& prepare) {
  return absl::StrJoin(prepare.peers(), " ", [](std::string* out, const v1::PeerEntry& peer) {
    absl::StrAppend(out, peer.first_device() / 2);
  });
}

TEST(PeerTableTest, NamesTheHostsThatItExchangesWithAndItself) {
  const PeerTable table = Table(5);
  EXPECT_EQ(Names(PrepareFor(table, 0)), "0 1");
  const v1::Prepare prepare = PrepareFor(table, 3);
  EXPECT_EQ(Names(prepare), "2 3 4");
  EXPECT_EQ(prepare.self(), 1);
  EXPECT_EQ(prepare.hosts(), 5);
  EXPECT_FALSE(prepare.has_communicators());
}

TEST(PeerTableTest, AHostThatExchangesNothingIsTheOnlyOneInItsTable) {
  const PeerTable table(Peers(3), {{1}, {0}, {}}, {true, true, true}, {});
  EXPECT_EQ(Names(PrepareFor(table, 2)), "2");
  EXPECT_EQ(PrepareFor(table, 2).self(), 0);
}

// However many hosts the attempt has.
TEST(PeerTableTest, TheBytesOfAFlatMoveDoNotGrowWithTheHosts) {
  const auto most = [](int hosts) {
    const PeerTable table = Table(hosts);
    size_t bytes = 0;
    for (int host = 0; host < hosts; ++host) {
      bytes = std::max(bytes, PrepareFor(table, host).ByteSizeLong());
    }
    return bytes;
  };
  const size_t of_few = most(4);
  EXPECT_LE(most(4000), of_few + 3 * 3 * 4) << "longer varints, of three hosts";
}

// Two hosts prove the attempt by the tokens of both, so each pair that exchanges must have both,
// and no other host may.
TEST(PeerTableTest, OnlyThoseThatExchangeKnowTheTokensOfBoth) {
  const int hosts = 6;
  const PeerTable table = Table(hosts);
  const std::vector<std::vector<int32_t>> exchanges = Chain(hosts);
  std::vector<std::set<std::string>> known(hosts);
  std::vector<std::string> tokens;
  for (int host = 0; host < hosts; ++host) {
    const v1::Prepare prepare = PrepareFor(table, host);
    tokens.push_back(prepare.peers(prepare.self()).token());
    for (const v1::PeerEntry& peer : prepare.peers()) known[host].insert(peer.token());
  }
  for (int a = 0; a < hosts; ++a) {
    for (int b = 0; b < hosts; ++b) {
      const auto& others = exchanges[a];
      const bool exchange = a == b || std::find(others.begin(), others.end(), b) != others.end();
      EXPECT_EQ(known[a].contains(tokens[b]), exchange) << a << " " << b;
    }
  }
}

TEST(PeerTableTest, AnOlderWorkerIsToldAllHosts) {
  const PeerTable table(Peers(4), Chain(4), {true, false, true, true}, {});
  const v1::Prepare prepare = PrepareFor(table, 1);
  EXPECT_EQ(Names(prepare), "0 1 2 3");
  EXPECT_EQ(prepare.self(), 1);
  EXPECT_EQ(prepare.hosts(), 0);
  EXPECT_EQ(Names(PrepareFor(table, 0)), "0 1");
}

TEST(PeerTableTest, WithoutKnowledgeOfExchangesAllHostsAreNamed) {
  const PeerTable table(Peers(3), {}, {true, true, true}, {});
  EXPECT_EQ(Names(PrepareFor(table, 2)), "0 1 2");
  EXPECT_EQ(PrepareFor(table, 2).hosts(), 0);
}

TEST(PeerTableTest, HostsWithNcclFindEachOtherThroughTheFirst) {
  const PeerTable table = Table(8, {1, 2, 4, 7});
  const v1::Prepare first = PrepareFor(table, 1);
  EXPECT_EQ(Names(first), "0 1 2 4 7");
  EXPECT_EQ(first.communicators().hosts(), 4);
  EXPECT_EQ(first.communicators().ranks(), 8);
  EXPECT_EQ(first.communicators().place(), 0);
  const v1::Prepare last = PrepareFor(table, 7);
  EXPECT_EQ(Names(last), "1 6 7");
  EXPECT_EQ(last.communicators().place(), 3);
  EXPECT_EQ(last.peers(0).first_rank(), 0);
  EXPECT_EQ(last.peers(2).first_rank(), 6);
  EXPECT_EQ(last.communicators().among(), first.communicators().among());
  EXPECT_EQ(Names(PrepareFor(table, 5)), "4 5 6") << "has no NCCL";
}

// The first host knows them all, every other one only it: all tables together grow with the hosts.
TEST(PeerTableTest, TheBytesOfCommunicatorsGrowWithTheHosts) {
  const auto total = [](int hosts) {
    std::set<int> nccl;
    for (int host = 0; host < hosts; ++host) nccl.insert(host);
    const PeerTable table = Table(hosts, nccl);
    size_t entries = 0;
    for (int host = 0; host < hosts; ++host) entries += PrepareFor(table, host).peers_size();
    return entries;
  };
  EXPECT_LE(total(1000), 5u * 1000);
}

TEST(PeerTableTest, AnotherLifeOfAHostIsAnotherGroup) {
  const auto among = [](int64_t incarnation) {
    std::vector<v1::PeerEntry> peers = Peers(2, {0, 1});
    peers[1].set_incarnation(incarnation);
    const PeerTable table(std::move(peers), Chain(2), {true, true}, Named("n"));
    return PrepareFor(table, 0).communicators().among();
  };
  EXPECT_EQ(among(1).size(), 32u);
  EXPECT_EQ(among(1), among(1));
  EXPECT_NE(among(1), among(2));
}

}  // namespace
}  // namespace remesh::server
