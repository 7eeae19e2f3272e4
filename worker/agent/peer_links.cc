// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/peer_links.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/transport_names.h"

namespace remesh::worker {
namespace {

// The address that `peer` lists for a link; empty if it lists none.
std::string AddressOf(const v1::PeerEntry& peer, const std::string& link) {
  for (const v1::DataAddress& address : peer.data_addresses()) {
    if (!link.empty() && address.transport() == link) return address.address();
  }
  return "";
}

absl::Status NoCommonTransport(const v1::PeerEntry& peer, const LinkNames& links) {
  const std::string names = absl::StrJoin(links.all(), ", ");
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("host ", peer.host(), " has no address of a transport of this host: ", names),
      {"NO_COMMON_TRANSPORT", {{"host", peer.host()}, {"transport", names}}});
}

// Checks the ranks of windowed peers, which are some of `whole.hosts` hosts.
absl::Status CheckRanks(int self, const WindowedHosts& whole, const std::vector<Peer>& peers) {
  int64_t next = 0;
  int hosts = 0;
  int first = -1;
  for (int i = 0; i < std::ssize(peers); ++i) {
    const Peer& peer = peers[i];
    if (!peer.windowed) continue;
    const int64_t last = int64_t{whole.ranks} - peer.devices;
    if (peer.first_rank < next || peer.first_rank > last) {
      return InvalidField(absl::StrCat("peers[", i, "].first_rank"), absl::StrCat(peer.first_rank),
                          absl::StrCat("must be in [", next, ", ", last, "]"));
    }
    next = int64_t{peer.first_rank} + peer.devices;
    if (first < 0) first = i;
    ++hosts;
  }
  // Through the first host all find each other.
  const bool has_first = peers[first].first_rank == 0 && (first == self) == (whole.place == 0);
  if (!has_first || whole.place < 0 || whole.place >= whole.hosts) {
    return InvalidField("communicators.place", absl::StrCat(whole.place),
                        absl::StrCat("must be below ", whole.hosts,
                                     ", and 0 on the first host alone, which the table must name"));
  }
  if (whole.place == 0 ? hosts == whole.hosts : hosts <= whole.hosts) return absl::OkStatus();
  return InvalidField("communicators.hosts", absl::StrCat(whole.hosts),
                      absl::StrCat("must fit the ", hosts, " hosts with NCCL of the table"));
}

// Of a table that names all hosts: their lives, and how many devices each has.
std::string AmongOf(const v1::Prepare& prepare, const std::vector<Peer>& peers) {
  std::string among;
  for (size_t i = 0; i < peers.size(); ++i) {
    const v1::PeerEntry& peer = prepare.peers(static_cast<int>(i));
    if (!peers[i].windowed) continue;
    absl::StrAppend(&among, peer.host(), "\n", peer.incarnation(), "\n", peer.device_ids_size(),
                    "\n");
  }
  return among;
}

}  // namespace

std::vector<std::string> LinkNames::all() const {
  std::vector<std::string> names;
  for (const std::string& name : {windowed, stream, encrypted}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

LinkNames LinksOf(const DataThread& data) {
  LinkNames links;
  if (data.windowed()) links.windowed = data.transport_name();
  links.stream = data.stream_name();
  if (data.encrypts()) links.encrypted = absl::StrCat(links.stream, kEncryptedTransport);
  return links;
}

absl::StatusOr<std::vector<Peer>> PeersOf(const v1::Prepare& prepare, const LinkNames& links) {
  const auto lists = [&](const v1::PeerEntry& peer) {
    return !AddressOf(peer, links.windowed).empty();
  };
  // An older server, which names all hosts, may not name communicators.
  const bool all_list = prepare.hosts() == 0 && std::ranges::all_of(prepare.peers(), lists);
  const bool windowed =
      lists(prepare.peers(prepare.self())) && (!prepare.communicators().name().empty() || all_list);
  std::vector<Peer> peers;
  for (const v1::PeerEntry& entry : prepare.peers()) {
    Peer& peer = peers.emplace_back();
    peer.token = entry.token();
    peer.devices = entry.device_ids_size();
    peer.first_device = static_cast<uint32_t>(entry.first_device());
    peer.first_rank = entry.first_rank();
    peer.address = AddressOf(entry, links.encrypted);
    peer.encrypted = !peer.address.empty();
    if (!peer.encrypted && windowed) {
      peer.address = AddressOf(entry, links.windowed);
      peer.windowed = !peer.address.empty();
    }
    if (peer.address.empty()) peer.address = AddressOf(entry, links.stream);
    if (peer.address.empty()) return NoCommonTransport(entry, links);
  }
  return peers;
}

absl::StatusOr<Lasting> LastingOf(const v1::Prepare& prepare, const std::vector<Peer>& peers) {
  const v1::Communicators& named = prepare.communicators();
  Lasting lasting{.name = named.name(), .reused = named.reuse()};
  if (prepare.hosts() == 0) {
    lasting.among = AmongOf(prepare, peers);
    return lasting;
  }
  if (!peers[prepare.self()].windowed) return lasting;
  lasting.among = named.among();
  lasting.whole = {.hosts = named.hosts(),
                   .ranks = named.ranks(),
                   .place = named.place(),
                   .beside_streams = named.hosts() < prepare.hosts()};
  RETURN_IF_ERROR(CheckRanks(prepare.self(), lasting.whole, peers));
  return lasting;
}

}  // namespace remesh::worker
