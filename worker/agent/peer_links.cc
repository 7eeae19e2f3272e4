// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/peer_links.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/transport_names.h"

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
  const bool windowed =
      lists(prepare.peers(prepare.self())) &&
      (!prepare.communicators().name().empty() || std::ranges::all_of(prepare.peers(), lists));
  std::vector<Peer> peers;
  for (const v1::PeerEntry& entry : prepare.peers()) {
    Peer& peer = peers.emplace_back();
    peer.token = entry.token();
    peer.devices = entry.device_ids_size();
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

}  // namespace remesh::worker
