// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "worker/device/pieces.h"
#include "worker/execution/mover.h"

namespace remesh {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tables of digests travel as they lie in memory");

// Sources that are hashed again at once.
constexpr int kChecksInFlight = 8;

absl::Status PieceError(absl::StatusCode code, const char* reason, const char* what,
                        const std::string& array, const Box& box,
                        const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> metadata = more;
  metadata["array"] = array;
  metadata["box"] = box.DebugString();
  std::string message = absl::StrCat(what, ": ", array, box.DebugString());
  for (const auto& [key, value] : more) absl::StrAppend(&message, ", ", key, " ", value);
  return MakeError(code, message, {reason, metadata});
}

}  // namespace

bool Mover::NeedsSlot(int index, int piece) const {
  const BoundMove& move = list_.moves[index];
  const ShardView& shard = move.source != nullptr ? *move.source : *move.target;
  return !ContiguousBytes(shard, states_[index].pieces[piece]);
}

void Mover::RunJob(absl::AnyInvocable<void()> work, Then then) {
  ++jobs_;
  pool_->Run(
      [stopping = stopping_, work = std::move(work)]() mutable {
        if (!*stopping) work();
      },
      [this, then = std::move(then)](absl::Status status) mutable {
        --jobs_;
        if (halted() || !status.ok() || !MemoryHolds()) return;
        then();
        Advance();
      });
}

PeerGroup::Done Mover::OnTransfer(int peer, Then then) {
  return [this, peer, then = std::move(then)](absl::Status status) mutable {
    if (halted()) return;
    if (status.ok()) {
      if (!MemoryHolds()) return;
      then();
      return Advance();
    }
    const std::string why(status.message());
    const char* reason =
        status.code() == absl::StatusCode::kUnavailable ? "PEER_LOST" : "TRANSPORT_FAILED";
    Fail(MakeError(status.code(), absl::StrCat("transfer with host ", peer_names_[peer], ": ", why),
                   {reason, {{"host", peer_names_[peer]}, {"error", why}}}));
  };
}

void Mover::BeginLocal(PieceRef ref) {
  const BoundMove& move = list_.moves[ref.move];
  State& state = states_[ref.move];
  const Box& box = state.pieces[ref.piece];
  // What lies in the target now. Verify() compares it with what then lies in the source.
  uint64_t* digest = &state.digests[ref.piece];
  RunJob(
      [&move, &box, digest] {
        CopyBox(*move.source, box, *move.target);
        *digest = DigestBox(*move.target, box);
      },
      [this, ref, &move, &box] {
        bytes_.copied += PackedBytes(box, move.bits_per_element());
        --local_in_flight_;
        PieceDone(ref);
      });
}

void Mover::BeginSend(PieceRef ref) {
  const BoundMove& move = list_.moves[ref.move];
  const Box& box = states_[ref.move].pieces[ref.piece];
  uint64_t* digest = &states_[ref.move].digests[ref.piece];
  // A relay passes on what the origin said, not what it has.
  const bool carried = move.carries >= 0;
  if (carried) *digest = states_[move.carries].digests[ref.piece];
  std::span<std::byte> bytes;
  absl::AnyInvocable<void()> work;
  if (ref.slot < 0) {
    bytes = *ContiguousBytes(*move.source, box);
    if (carried) {
      OutgoingDigest(ref, *digest);
      return SendPiece(ref, bytes);
    }
    work = [bytes, digest] { *digest = DigestPacked(bytes); };
  } else {
    bytes = slots_.bytes(ref.slot, PackedBytes(box, move.bits_per_element()));
    work = [&move, &box, bytes, digest, carried] {
      PackBox(*move.source, box, bytes);
      if (!carried) *digest = DigestPacked(bytes);
    };
  }
  RunJob(std::move(work), [this, ref, bytes, digest] {
    OutgoingDigest(ref, *digest);
    SendPiece(ref, bytes);
  });
}

void Mover::SendPiece(PieceRef ref, std::span<const std::byte> bytes) {
  const Message& message = messages_[messages_.message_of(ref.move)];
  const uint32_t index = static_cast<uint32_t>(messages_.index_of(ref.move, ref.piece));
  const int64_t count = static_cast<int64_t>(bytes.size());
  group_->Send(message.peer, message.Tag(index), bytes,
               OnTransfer(message.peer, [this, ref, count] {
                 bytes_.sent += count;
                 Release(ref);
                 PieceDone(ref);
               }));
}

void Mover::OutgoingDigest(PieceRef ref, uint64_t digest) {
  Message& message = messages_[messages_.message_of(ref.move)];
  if (!message.Learn(messages_.index_of(ref.move, ref.piece), digest)) return;
  for (const Message::Piece& piece : message.pieces) message.table.push_back(piece.digest);
  group_->Send(
      message.peer, message.Tag(MessageTag::kDigestTable), std::as_bytes(std::span(message.table)),
      OnTransfer(message.peer, [this, window = message.window] { schedule_.Done(window); }));
}

void Mover::PostTableReceive(int index) {
  Message& message = messages_[index];
  message.table.resize(message.pieces.size());
  group_->Receive(message.peer, message.Tag(MessageTag::kDigestTable),
                  std::as_writable_bytes(std::span(message.table)),
                  OnTransfer(message.peer, [this, index] { TableArrived(index); }));
}

void Mover::BeginReceive(PieceRef ref) {
  const BoundMove& move = list_.moves[ref.move];
  const Box& box = states_[ref.move].pieces[ref.piece];
  const std::span<std::byte> bytes =
      ref.slot < 0 ? *ContiguousBytes(*move.target, box)
                   : slots_.bytes(ref.slot, PackedBytes(box, move.bits_per_element()));
  const Message& message = messages_[messages_.message_of(ref.move)];
  const uint32_t index = static_cast<uint32_t>(messages_.index_of(ref.move, ref.piece));
  group_->Receive(message.peer, message.Tag(index), bytes,
                  OnTransfer(message.peer, [this, ref, bytes] { Received(ref, bytes); }));
}

void Mover::Received(PieceRef ref, std::span<const std::byte> bytes) {
  const BoundMove& move = list_.moves[ref.move];
  const Box& box = states_[ref.move].pieces[ref.piece];
  uint64_t* digest = &states_[ref.move].digests[ref.piece];
  RunJob(
      [&move, &box, bytes, digest, packed = ref.slot >= 0] {
        *digest = DigestPacked(bytes);
        if (packed) UnpackBox(bytes, box, *move.target);
      },
      [this, ref, digest] {
        Release(ref);
        const int message = messages_.message_of(ref.move);
        const int index = messages_.index_of(ref.move, ref.piece);
        messages_[message].Learn(index, *digest);
        Settle(message, index);
      });
}

void Mover::Release(PieceRef ref) {
  if (ref.slot >= 0) slots_.Give(ref.slot);
  --remote_in_flight_;
}

void Mover::TableArrived(int index) {
  Message& message = messages_[index];
  message.table_here = true;
  schedule_.Done(message.window);
  for (size_t i = 0; i < message.pieces.size() && !halted(); ++i)
    Settle(index, static_cast<int>(i));
}

// Compares what arrived with what the origin said, once both are known.
void Mover::Settle(int index, int piece_index) {
  const Message& message = messages_[index];
  const Message::Piece& piece = message.pieces[piece_index];
  if (!message.table_here || !piece.known) return;
  const BoundMove& move = list_.moves[piece.move];
  const Box& box = states_[piece.move].pieces[piece.piece];
  if (piece.digest != message.table[piece_index]) {
    return Fail(PieceError(
        absl::StatusCode::kDataLoss, "DIGEST_MISMATCH", "bytes arrived that are not the origin's",
        list_.arrays[move.array].name, box,
        {{"host", peer_names_[message.peer]}, {"window", absl::StrCat(message.window)}}));
  }
  bytes_.received += PackedBytes(box, move.bits_per_element());
  ++bytes_.pieces_verified;
  PieceDone({piece.move, piece.piece});
}

void Mover::Verify() {
  if (halted()) return;
  REMESH_CHECK(schedule_.all_finished());
  if (group_ != nullptr) group_->Abort();
  checking_ = true;
  CheckSources();
}

void Mover::CheckSources() {
  const int end = static_cast<int>(list_.moves.size());
  while (next_check_.move < end && checks_in_flight_ < kChecksInFlight) {
    const BoundMove& move = list_.moves[next_check_.move];
    State& state = states_[next_check_.move];
    if (!move.from_origin || next_check_.piece == static_cast<int>(state.digests.size())) {
      state.pieces = {};
      next_check_ = {next_check_.move + 1, 0};
      continue;
    }
    if (next_check_.piece == 0) state.pieces = SplitIntoPieces(move.box, move.bits_per_element());
    const PieceRef ref = next_check_;
    ++next_check_.piece;
    ++checks_in_flight_;
    auto now = std::make_shared<uint64_t>(0);
    RunJob([&move, box = state.pieces[ref.piece], now] { *now = DigestBox(*move.source, box); },
           [this, ref, now, box = state.pieces[ref.piece]] {
             --checks_in_flight_;
             if (*now == states_[ref.move].digests[ref.piece]) return CheckSources();
             Fail(PieceError(absl::StatusCode::kAborted, "SOURCE_MODIFIED",
                             "the source was written while it was read",
                             list_.arrays[list_.moves[ref.move].array].name, box, {}));
           });
  }
  if (next_check_.move == end && checks_in_flight_ == 0 && std::exchange(checking_, false)) {
    events_.verified(CheckMemory());
  }
}

}  // namespace remesh
