// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/messages.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace remesh {

bool Message::Learn(int index, uint64_t digest) {
  Piece& piece = pieces[index];
  REMESH_CHECK(!piece.known);
  piece.digest = digest;
  piece.known = true;
  return ++known == static_cast<int>(pieces.size());
}

MessageList::MessageList(const std::vector<BoundMove>& moves) : of_move_(moves.size()) {
  absl::flat_hash_map<std::pair<int, int>, int> of_pair;
  int32_t window = -1;
  for (size_t i = 0; i < moves.size(); ++i) {
    const BoundMove& move = moves[i];
    if (move.peer < 0) continue;
    if (move.window != window) {
      of_pair.clear();
      window = move.window;
    }
    const auto [it, added] = of_pair.try_emplace({move.from, move.to}, messages_.size());
    if (added) {
      messages_.push_back({move.window, move.from, move.to, move.peer, move.target == nullptr});
    }
    of_move_[i].message = it->second;
  }
}

std::pair<int, int> MessageList::OfWindow(int32_t window) const {
  const auto [first, last] =
      std::equal_range(messages_.begin(), messages_.end(), Message{.window = window},
                       [](const Message& a, const Message& b) { return a.window < b.window; });
  return {static_cast<int>(first - messages_.begin()), static_cast<int>(last - messages_.begin())};
}

void MessageList::AddPieces(int move, int count) {
  Message& message = messages_[of_move_[move].message];
  of_move_[move].first = static_cast<int>(message.pieces.size());
  for (int piece = 0; piece < count; ++piece) message.pieces.push_back({move, piece});
}

}  // namespace remesh
