// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/messages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/int_math.h"
#include "worker/execution/moves.h"

namespace remesh::worker {
namespace {

int64_t Aligned(int64_t bytes) { return CeilDiv(bytes, kPartAlignment) * kPartAlignment; }

}  // namespace

MessageList::MessageList(absl::Span<const BoundMove> moves, int32_t windows,
                         const WholeMessages& whole, std::vector<uint32_t> numbers)
    : numbers_(std::move(numbers)) {
  order_begin_.push_back(0);
  int move = 0;
  for (int32_t window = 0; window < windows; ++window) {
    const int first = move;
    while (move < std::ssize(moves) && moves[move].window == window) ++move;
    AddWindow(moves, first, move, whole);
    order_begin_.push_back(static_cast<int>(slices_.size()));
  }
}

void MessageList::AddWindow(absl::Span<const BoundMove> moves, int first, int last,
                            const WholeMessages& whole) {
  absl::flat_hash_map<std::pair<int, int>, int> of_pair;
  std::vector<std::vector<int>> of_message;
  const int first_message = static_cast<int>(messages_.size());
  for (int i = first; i < last; ++i) {
    const BoundMove& move = moves[i];
    const auto [it, added] = of_pair.try_emplace({move.from, move.to}, of_message.size());
    if (added) {
      of_message.emplace_back();
      messages_.push_back({.window = move.window,
                           .from = move.from,
                           .to = move.to,
                           .peer = move.peer,
                           .outgoing = move.target == nullptr,
                           .whole = whole.Of(move.peer)});
    }
    of_message[it->second].push_back(i);
  }
  const size_t first_slice = slices_.size();
  for (size_t m = 0; m < of_message.size(); ++m) {
    Message& message = messages_[first_message + m];
    message.first_slice = static_cast<int>(slices_.size());
    slices_.push_back({.message = first_message + static_cast<int>(m),
                       .first_piece = static_cast<int>(pieces_.size())});
    const int64_t slice_bytes = message.whole ? INT64_MAX : kSliceBytesMax;
    for (const int i : of_message[m]) Cut(moves[i], i, slice_bytes);
    message.slice_count = static_cast<int>(slices_.size()) - message.first_slice;
  }
  const size_t begin = order_.size();
  order_.resize(slices_.size());
  std::iota(order_.begin() + begin, order_.end(), static_cast<int>(first_slice));
  std::stable_sort(order_.begin() + begin, order_.end(),
                   [&](int a, int b) { return slices_[a].index < slices_[b].index; });
}

// Appends the move's chunks to the last slice, and to new ones when that is full.
void MessageList::Cut(const BoundMove& move, int index, int64_t slice_bytes) {
  int64_t chunk = 0;
  for (int64_t lo = move.lo; lo < move.hi;) {
    Slice* slice = &slices_.back();
    const int64_t offset = Aligned(slice->bytes);
    int64_t room = (slice_bytes - offset) / kChunkBytes;
    const int64_t rest = move.chunks() - chunk;
    if (rest == 1 && BytesOfBits(move.hi - lo) <= slice_bytes - offset) room = 1;
    if (room <= 0 && slice->piece_count > 0) {
      slices_.push_back({.message = slice->message,
                         .index = slice->index + 1,
                         .first_piece = static_cast<int>(pieces_.size())});
      continue;
    }
    const int64_t chunks = std::min(std::max<int64_t>(room, 1), rest);
    const int64_t hi = std::min(lo + chunks * kChunkBits, move.hi);
    pieces_.push_back({.move = index, .lo = lo, .hi = hi, .first_chunk = chunk, .offset = offset});
    ++slice->piece_count;
    slice->bytes = offset + BytesOfBits(hi - lo);
    slice->payload_bytes += BytesOfBits(hi - lo);
    slice->chunks += chunks;
    chunk += chunks;
    lo = hi;
  }
}

MessageTag MessageList::TagOf(const Slice& slice, bool digests) const {
  const Message& message = MessageOf(slice);
  return {static_cast<uint32_t>(message.window), NumberOf(message.from), NumberOf(message.to),
          static_cast<uint32_t>(2 * slice.index + (digests ? 1 : 0))};
}

}  // namespace remesh::worker
