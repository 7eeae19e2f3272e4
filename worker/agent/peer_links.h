// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "remesh/v1/worker.pb.h"
#include "worker/execution/data_thread.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

// The links of a host to others, by the names under which a peer table lists their addresses.
struct LinkNames {
  std::string windowed;  // between devices (Transport::windowed()); empty: none
  std::string stream;
  std::string encrypted;  // streams that are encrypted; empty: none

  std::vector<std::string> all() const;
};
LinkNames LinksOf(const DataThread& data);

// The peers of an attempt, each with its address on the link that the two hosts use: both pick the
// same, because both pick from the same table. An encrypted stream goes first: the table lists
// nothing else if data is to be encrypted. Then the link between devices, unless the planner names
// no communicators for it although some hosts lack it. Then the stream. FAILED_PRECONDITION
// (NO_COMMON_TRANSPORT) names a host that lists none of this host's links. REQUIRES: prepare.self
// is in the table.
absl::StatusOr<std::vector<Peer>> PeersOf(const v1::Prepare& prepare, const LinkNames& links);

// The communicators of the attempt among these peers. INVALID_ARGUMENT (fields
// "communicators.place", "peers[i].first_rank") if a table that does not name all hosts lacks those
// that must find each other, or its ranks do not rise within those of all hosts.
absl::StatusOr<Lasting> LastingOf(const v1::Prepare& prepare, const std::vector<Peer>& peers);

}  // namespace remesh::worker
