// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

inline constexpr size_t kAttemptTokenBytes = 16;

// INVALID_ARGUMENT unless 0 <= self < peers.size() and every token is 16 bytes and occurs once.
absl::Status ValidatePeerTable(int self, const std::vector<Peer>& peers);

// The status of an operation with a peer that is gone; `why` ends its message.
absl::Status PeerLost(const Peer& peer, std::string_view why);

// The status of a message if its two ends disagree on its size.
absl::Status SizesDiffer(const Peer& peer, const MessageTag& tag, uint64_t sent_bytes,
                         uint64_t buffer_bytes);

}  // namespace remesh::worker
