// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "worker/device/chunks.h"
#include "worker/transport/transport.h"

namespace remesh::worker {

struct BoundMove;

inline constexpr int64_t kSliceBytesMax = int64_t{4} << 20;

// Whole chunks of one move, and where they lie in a slice.
struct SlicePiece {
  int move = 0;
  int64_t lo = 0;  // on the tape
  int64_t hi = 0;
  int64_t first_chunk = 0;  // index in the move
  int64_t offset = 0;       // bytes into the slice: a multiple of 16
};

// Some chunks of a message that travel together, with their digests.
struct Slice {
  int message = 0;
  int index = 0;  // among the message's slices
  int first_piece = 0;
  int piece_count = 0;
  int64_t bytes = 0;          // of the chunks and the gaps between pieces
  int64_t payload_bytes = 0;  // without the gaps between pieces
  int64_t chunks = 0;
};

// Everything that one device sends to another in one window, in the program's order; or copies to
// it, if both devices are on this host.
struct Message {
  int32_t window = 0;
  int from = 0;  // device ordinals
  int to = 0;
  int peer = -1;  // -1: both are here
  bool outgoing = false;
  bool whole = false;  // one slice: see WholeMessages
  int first_slice = 0;
  int slice_count = 0;
};

// Which messages are not cut into slices: those with windowed peers (see Peer), and copies by GPUs.
struct WholeMessages {
  bool here = false;            // between devices of this host
  std::vector<bool> with_peer;  // by index in the peer table; empty: with none

  bool Of(int peer) const { return peer < 0 ? here : !with_peer.empty() && with_peer[peer]; }
};

// All messages of an attempt on one host, cut into slices. The list depends on the program and on
// the links alone, so both ends of a message agree.
class MessageList {
 public:
  MessageList() = default;
  // A slice has at most kSliceBytesMax bytes, unless its message is whole. numbers: by ordinal,
  // what tags name devices by (AttemptDevices::numbers()); empty: the ordinals.
  MessageList(absl::Span<const BoundMove> moves, int32_t windows, const WholeMessages& whole = {},
              std::vector<uint32_t> numbers = {});

  const std::vector<Message>& messages() const { return messages_; }  // by window
  const std::vector<Slice>& slices() const { return slices_; }        // by message
  const Message& MessageOf(const Slice& slice) const { return messages_[slice.message]; }
  absl::Span<const SlicePiece> PiecesOf(const Slice& slice) const {
    return absl::MakeConstSpan(pieces_).subspan(slice.first_piece, slice.piece_count);
  }
  // The slices of `window` in the order that all hosts share: the first slice of every message,
  // then the second slice of every message that has one, and so on. So no peer waits for another's
  // whole message.
  absl::Span<const int> InOrder(int32_t window) const {
    return absl::MakeConstSpan(order_).subspan(order_begin_[window],
                                               order_begin_[window + 1] - order_begin_[window]);
  }

  // The tag of a slice; with `digests`, the tag of its digests, if they travel apart from it.
  MessageTag TagOf(const Slice& slice, bool digests) const;

 private:
  void AddWindow(absl::Span<const BoundMove> moves, int first, int last,
                 const WholeMessages& whole);
  void Cut(const BoundMove& move, int index, int64_t slice_bytes);
  uint32_t NumberOf(int device) const {
    return numbers_.empty() ? static_cast<uint32_t>(device) : numbers_[device];
  }

  std::vector<uint32_t> numbers_;
  std::vector<Message> messages_;
  std::vector<Slice> slices_;
  std::vector<SlicePiece> pieces_;
  std::vector<int> order_;
  std::vector<int> order_begin_;
};

}  // namespace remesh::worker
