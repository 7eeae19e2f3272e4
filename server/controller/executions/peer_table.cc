// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/peer_table.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/text/transport_names.h"
#include "service/process/sha256.h"

namespace remesh::server {

bool HasNccl(const v1::PeerEntry& peer) {
  return std::any_of(peer.data_addresses().begin(), peer.data_addresses().end(),
                     [](const auto& address) { return address.transport() == kNcclTransport; });
}

std::string LifeOf(const v1::PeerEntry& peer) {
  return absl::StrCat(peer.host(), "\n", peer.incarnation(), "\n", peer.device_ids_size(), "\n");
}

PeerTable::PeerTable(std::vector<v1::PeerEntry> peers, std::vector<std::vector<int32_t>> exchanges,
                     std::vector<bool> takes_short, v1::Communicators communicators)
    : peers_(std::move(peers)),
      exchanges_(std::move(exchanges)),
      takes_short_(std::move(takes_short)),
      communicators_(std::move(communicators)) {
  REMESH_CHECK(exchanges_.empty() || exchanges_.size() == peers_.size());
  REMESH_CHECK(takes_short_.size() == peers_.size());
  int32_t devices = 0;
  int32_t ranks = 0;
  std::string among;
  for (size_t i = 0; i < peers_.size(); ++i) {
    v1::PeerEntry& peer = peers_[i];
    peer.set_first_device(devices);
    devices += peer.device_ids_size();
    if (!connects_by_nccl() || !server::HasNccl(peer)) continue;
    nccl_hosts_.push_back(static_cast<int32_t>(i));
    peer.set_first_rank(ranks);
    ranks += peer.device_ids_size();
    absl::StrAppend(&among, LifeOf(peer));
  }
  if (nccl_hosts_.empty()) return;
  communicators_.set_hosts(static_cast<int32_t>(nccl_hosts_.size()));
  communicators_.set_ranks(ranks);
  service::Sha256 digest;
  digest.Add(among);
  communicators_.set_among(absl::HexStringToBytes(digest.Hex()));
}

bool PeerTable::HasNccl(int32_t host) const {
  return std::binary_search(nccl_hosts_.begin(), nccl_hosts_.end(), host);
}

// The hosts that the host must know, rising, itself included. Hosts with NCCL find each other
// through the first one.
std::vector<int32_t> PeerTable::KnownTo(int32_t host) const {
  std::vector<int32_t> known = {host};
  if (HasNccl(host)) {
    const bool first = host == nccl_hosts_.front();
    known.insert(known.end(), nccl_hosts_.begin(),
                 first ? nccl_hosts_.end() : nccl_hosts_.begin() + 1);
  }
  const std::vector<int32_t>& others = exchanges_[host];
  known.insert(known.end(), others.begin(), others.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return known;
}

size_t PeerTable::BytesOf(int32_t host) const {
  size_t known = NamesAll(host) ? peers_.size() : 1 + exchanges_[host].size();
  if (HasNccl(host)) known += host == nccl_hosts_.front() ? nccl_hosts_.size() : 1;
  return known * peers_[host].SpaceUsedLong();
}

void PeerTable::NameIn(v1::Prepare& prepare, int32_t host) const {
  if (connects_by_nccl()) *prepare.mutable_communicators() = communicators_;
  if (NamesAll(host)) {
    prepare.set_self(host);
    *prepare.mutable_peers() = {peers_.begin(), peers_.end()};
    return;
  }
  prepare.set_hosts(static_cast<int32_t>(peers_.size()));
  for (const int32_t known : KnownTo(host)) {
    if (known == host) prepare.set_self(prepare.peers_size());
    *prepare.add_peers() = peers_[known];
  }
  const auto place = std::lower_bound(nccl_hosts_.begin(), nccl_hosts_.end(), host);
  if (place == nccl_hosts_.end() || *place != host) return;
  prepare.mutable_communicators()->set_place(static_cast<int32_t>(place - nccl_hosts_.begin()));
}

}  // namespace remesh::server
