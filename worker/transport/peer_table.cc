// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/peer_table.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {

absl::Status ValidatePeerTable(int self, const std::vector<Peer>& peers) {
  if (self < 0 || static_cast<size_t>(self) >= peers.size()) {
    return InvalidField("self", absl::StrCat(self),
                        absl::StrCat("must be an index into ", peers.size(), " peers"));
  }
  absl::flat_hash_set<AttemptToken> seen;
  for (size_t i = 0; i < peers.size(); ++i) {
    // The value of a token is a secret: it stays out of messages.
    const std::string field = absl::StrCat("peers[", i, "].token");
    if (peers[i].token.size() != kAttemptTokenBytes) {
      return InvalidField(field, absl::StrCat(peers[i].token.size(), " bytes"), "must be 16 bytes");
    }
    if (!seen.insert(peers[i].token).second) {
      return InvalidField(field, "(hidden)", "must differ from the other peers' tokens");
    }
  }
  return absl::OkStatus();
}

absl::Status PeerLost(const Peer& peer, std::string_view why) {
  const std::string reason(why);
  return MakeError(absl::StatusCode::kUnavailable,
                   absl::StrCat("peer ", peer.address, " is lost: ", reason),
                   {"PEER_LOST", {{"peer", peer.address}, {"cause", reason}}});
}

absl::Status SizesDiffer(const Peer& peer, const MessageTag& tag, uint64_t sent_bytes,
                         uint64_t buffer_bytes) {
  const std::string name =
      absl::StrCat(tag.window, "/", tag.from_device, "->", tag.to_device, "/", tag.index);
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("message ", name, " with peer ", peer.address, " was sent with ",
                                sent_bytes, " bytes and awaited with ", buffer_bytes),
                   {"MESSAGE_SIZE_MISMATCH",
                    {{"message", name},
                     {"peer", peer.address},
                     {"sent_bytes", absl::StrCat(sent_bytes)},
                     {"buffer_bytes", absl::StrCat(buffer_bytes)}}});
}

}  // namespace remesh::worker
