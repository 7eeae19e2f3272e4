// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/values/records.h"

namespace remesh::server {

// A host, with what only this life of the server knows of it.
struct HostEntry {
  KnownHost known;
  std::string process_nonce = "";  // of the process that got the incarnation
  bool durable = false;            // the journal has it, so it keeps its entry while it is away
  Timestamp away_since{0};         // used while no stream is attached
};

struct EnrolmentRules {
  std::set<std::string> join_token_hashes;  // empty: unknown hosts need none
  Timestamp lost_after{0};
  size_t hosts_max = 20'000;
};

// What to do with a registration that may attach.
struct Enrolment {
  HostEntry entry;
  bool changed = false;      // a new life of the host: the journal must have it first
  std::string warning = "";  // for the log; empty: none
};

// SHA-256. Secrets and tokens are kept and compared only by this hash.
std::string HashSecret(std::string_view secret);

// Decides whether the host in `registration` may attach, and as which life of it. `entry`: null
// when the host is not known. `vouched`: a certificate names the host, which replaces secret and
// token. `alive`: a stream of the host is attached. Without TLS, this keeps out only those who
// cannot read the traffic.
//   PERMISSION_DENIED (JOIN_TOKEN): not known, or back without its secret, and no valid join token.
//   PERMISSION_DENIED (HOST_SECRET): another secret, while the host is alive or not yet lost, or
//   without join tokens. ABORTED (SUPERSEDED): a later process of the host has attached.
//   RESOURCE_EXHAUSTED (TOO_MANY_HOSTS): `hosts` hosts are known already.
absl::StatusOr<Enrolment> Enrol(const v1::Register& registration, const HostEntry* entry,
                                bool vouched, bool alive, size_t hosts, Timestamp now,
                                const EnrolmentRules& rules);

}  // namespace remesh::server
