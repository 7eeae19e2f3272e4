// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// The hosts of an attempt and the part of them that each must know: those with which it exchanges
// data, and those through which NCCL connects. Together the parts grow with what is exchanged, not
// with the square of the hosts. Immutable, so thread-safe.
class PeerTable {
 public:
  // peers: all hosts of the attempt. exchanges: by host, rising indices of those with which it
  // exchanges data; empty: each may exchange with all. takes_short: by host, whether its worker
  // knows Prepare.hosts; others are sent all peers. communicators: name and reuse; no name: none.
  PeerTable(std::vector<v1::PeerEntry> peers, std::vector<std::vector<int32_t>> exchanges,
            std::vector<bool> takes_short, v1::Communicators communicators);

  size_t size() const { return peers_.size(); }
  // Whether the worker of host number `host` knows Prepare.hosts and Assignment.columns.
  bool takes_short(int32_t host) const { return takes_short_[host]; }
  bool connects_by_nccl() const { return !communicators_.name().empty(); }
  // Writes what host number `host` must know into `prepare`: self, peers, hosts and communicators.
  void NameIn(v1::Prepare& prepare, int32_t host) const;
  // Bytes of memory that what NameIn() writes takes, roughly.
  size_t BytesOf(int32_t host) const;

 private:
  bool NamesAll(int32_t host) const { return !takes_short_[host] || exchanges_.empty(); }
  std::vector<int32_t> KnownTo(int32_t host) const;
  bool HasNccl(int32_t host) const;

  std::vector<v1::PeerEntry> peers_;  // with their first devices and ranks
  std::vector<std::vector<int32_t>> exchanges_;
  std::vector<bool> takes_short_;
  std::vector<int32_t> nccl_hosts_;  // rising; empty unless communicators connect them
  v1::Communicators communicators_;  // except `place`
};

// Whether the host lists an address of NCCL.
bool HasNccl(const v1::PeerEntry& peer);
// The host's incarnation and number of devices: a new life of a host may have other GPUs, and has
// none of the communicators.
std::string LifeOf(const v1::PeerEntry& peer);

}  // namespace remesh::server
