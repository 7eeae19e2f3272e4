// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/execution/moves.h"
#include "worker/transport/transport.h"

namespace remesh {

// All pieces that one device sends to one device of another host in one window, in the program's
// order, and the digest of each.
struct Message {
  int32_t window = 0;
  int from = 0;  // device ordinals
  int to = 0;
  int peer = 0;
  bool outgoing = false;

  struct Piece {
    int move = 0;
    int piece = 0;
    uint64_t digest = 0;  // outgoing: the origin's; incoming: of what arrived
    bool known = false;
  };
  std::vector<Piece> pieces;
  std::vector<uint64_t> table;  // as it travels, little-endian
  bool table_here = false;      // incoming
  int known = 0;

  MessageTag Tag(uint32_t index) const {
    return {static_cast<uint32_t>(window), static_cast<uint32_t>(from), static_cast<uint32_t>(to),
            index};
  }
  // Notes the digest of piece `index`; true when that was the last.
  bool Learn(int index, uint64_t digest);
};

// The messages of an attempt on one host.
class MessageList {
 public:
  explicit MessageList(const std::vector<BoundMove>& moves);

  Message& operator[](int message) { return messages_[message]; }
  int size() const { return static_cast<int>(messages_.size()); }
  // -1 for a move inside the host.
  int message_of(int move) const { return of_move_[move].message; }
  // Messages [first, second) are of `window`.
  std::pair<int, int> OfWindow(int32_t window) const;

  // Appends a move's pieces to its message. Call once a move, in the program's order, in its
  // window.
  void AddPieces(int move, int count);
  // Index of a move's piece within its message.
  int index_of(int move, int piece) const { return of_move_[move].first + piece; }

 private:
  struct Place {
    int message = -1;
    int first = 0;
  };
  std::vector<Message> messages_;  // by window
  std::vector<Place> of_move_;
};

}  // namespace remesh
