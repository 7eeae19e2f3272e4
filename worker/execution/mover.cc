// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/mover.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/device/pieces.h"

namespace remesh {
namespace {

// Pieces inside the host that the pool may hold at once: enough to keep it busy, few enough not to
// keep the network's pieces waiting.
constexpr int kLocalInFlight = 8;

std::vector<std::pair<int, int>> RangesOf(const MoveList& list) {
  std::vector<std::pair<int, int>> ranges(list.windows);
  int move = 0;
  const int count = static_cast<int>(list.moves.size());
  for (int32_t window = 0; window < list.windows; ++window) {
    ranges[window].first = move;
    while (move < count && list.moves[move].window == window) ++move;
    ranges[window].second = move;
  }
  return ranges;
}

// Units per window: one a move, one a message (its table of digests).
std::vector<int64_t> WorkOf(const std::vector<std::pair<int, int>>& ranges,
                            const MessageList& messages) {
  std::vector<int64_t> work;
  for (size_t window = 0; window < ranges.size(); ++window) {
    const auto [first, last] = messages.OfWindow(static_cast<int32_t>(window));
    work.push_back(ranges[window].second - ranges[window].first + last - first);
  }
  return work;
}

}  // namespace

SlotShape Mover::SlotsFor(const MoveList& list, const Options& options) {
  int64_t slot_bytes = 0;
  for (const BoundMove& move : list.moves) {
    if (move.peer < 0) continue;
    const int bits = move.bits_per_element();
    const ShardView& shard = move.source != nullptr ? *move.source : *move.target;
    if (bits >= 8 && ContiguousBytes(shard, move.box)) continue;
    slot_bytes = std::max(slot_bytes, std::min(PackedBytes(move.box, bits), kPieceBytesMax));
  }
  if (slot_bytes == 0) return {};
  const int64_t fit = std::max<int64_t>(options.staging_bytes / slot_bytes, 1);
  return {static_cast<int>(std::min<int64_t>(fit, options.pieces_in_flight)), slot_bytes};
}

Mover::Mover(MoveList list, std::vector<std::string> peer_names, const Options& options,
             Transport* transport, CopyPool* pool, Events events)
    : list_(std::move(list)),
      peer_names_(std::move(peer_names)),
      options_(options),
      transport_(transport),
      pool_(pool),
      events_(std::move(events)),
      states_(list_.moves.size()),
      range_(RangesOf(list_)),
      started_at_(list_.windows),
      messages_(list_.moves),
      schedule_(WorkOf(range_, messages_)),
      slots_(SlotsFor(list_, options),
             list_.slots == nullptr ? std::span<std::byte>() : list_.slots->bytes()) {
  REMESH_CHECK(options.pieces_in_flight > 0);
}

Mover::~Mover() { REMESH_CHECK(stopped()); }

absl::Status Mover::Open(int self, std::vector<Peer> peers) {
  ASSIGN_OR_RETURN(group_, transport_->Open(self, std::move(peers)));
  return absl::OkStatus();
}

void Mover::Grant(int32_t until) {
  schedule_.Grant(until);
  Advance();
}

void Mover::Stop() {
  *stopping_ = true;
  if (group_ != nullptr) group_->Abort();
}

bool Mover::stopped() const {
  return *stopping_ && jobs_ == 0 && (group_ == nullptr || group_->quiesced());
}

void Mover::Fail(const absl::Status& status) {
  if (halted()) return;
  failed_ = true;
  // What a truncated buffer brings about comes in many forms.
  const absl::Status cause = CheckMemory();
  (checking_ ? events_.verified : events_.failed)(cause.ok() ? status : cause);
}

absl::Status Mover::CheckMemory() const {
  for (const auto& shards : {list_.source, list_.target}) {
    if (shards != nullptr) RETURN_IF_ERROR(shards->CheckWhole());
  }
  return absl::OkStatus();
}

bool Mover::MemoryHolds() {
  const bool truncated = (list_.source != nullptr && list_.source->truncated()) ||
                         (list_.target != nullptr && list_.target->truncated());
  if (truncated) Fail(CheckMemory());
  return !truncated;
}

void Mover::Advance() {
  if (halted()) return;
  while (const auto window = schedule_.TakeStartable()) StartWindow(*window);
  AdmitRemote();
  AdmitLocal();
  while (const auto window = schedule_.TakeFinished()) {
    for (int move = range_[*window].first; move < range_[*window].second; ++move) {
      states_[move].pieces = {};
    }
    events_.window_done({*window, bytes_, options_.clock->Now() - started_at_[*window]});
  }
}

void Mover::StartWindow(int32_t window) {
  started_at_[window] = options_.clock->Now();
  const auto [first, last] = range_[window];
  for (int move = first; move < last; ++move) StartMove(move);
  const auto messages = messages_.OfWindow(window);
  for (int m = messages.first; m < messages.second; ++m) {
    if (!messages_[m].outgoing) PostTableReceive(m);
  }
}

void Mover::StartMove(int index) {
  const BoundMove& move = list_.moves[index];
  State& state = states_[index];
  state.pieces = SplitIntoPieces(move.box, move.bits_per_element());
  state.left = static_cast<int>(state.pieces.size());
  state.digests.resize(state.pieces.size());
  for (const int earlier : move.after) {
    if (states_[earlier].done) continue;
    ++state.waits;
    states_[earlier].dependents.push_back(index);
  }
  if (move.peer >= 0) {
    messages_.AddPieces(index, state.left);
  } else if (state.waits == 0) {
    for (int piece = 0; piece < state.left; ++piece) local_ready_.push_back({index, piece});
  }
}

void Mover::AdmitRemote() {
  const int end = schedule_.started() == 0 ? 0 : range_[schedule_.started() - 1].second;
  while (next_remote_.move < end && remote_in_flight_ < options_.pieces_in_flight) {
    const int move = next_remote_.move;
    State& state = states_[move];
    if (list_.moves[move].peer < 0 || next_remote_.piece == static_cast<int>(state.pieces.size())) {
      next_remote_ = {move + 1, 0};
      continue;
    }
    PieceRef ref = next_remote_;
    if (NeedsSlot(ref.move, ref.piece)) {
      if (!slots_.has_free()) return;
      ref.slot = slots_.Take();
    }
    ++next_remote_.piece;
    ++remote_in_flight_;
    if (state.waits > 0) {
      state.parked.push_back(ref);
    } else {
      Begin(ref);
    }
  }
}

// A piece that waits for another holds nothing here: what the network needs is never behind it.
void Mover::AdmitLocal() {
  while (!local_ready_.empty() && local_in_flight_ < kLocalInFlight) {
    ++local_in_flight_;
    Begin(local_ready_.front());
    local_ready_.pop_front();
  }
}

void Mover::Begin(PieceRef ref) {
  const BoundMove& move = list_.moves[ref.move];
  if (move.peer < 0) {
    BeginLocal(ref);
  } else if (move.target == nullptr) {
    BeginSend(ref);
  } else {
    BeginReceive(ref);
  }
}

void Mover::PieceDone(PieceRef ref) {
  if (--states_[ref.move].left == 0) MoveDone(ref.move);
}

void Mover::MoveDone(int index) {
  State& state = states_[index];
  state.done = true;
  for (const int dependent : std::exchange(state.dependents, {})) {
    State& waiting = states_[dependent];
    if (--waiting.waits > 0) continue;
    if (list_.moves[dependent].peer >= 0) {
      for (const PieceRef& ref : std::exchange(waiting.parked, {})) Begin(ref);
    } else {
      for (int piece = 0; piece < waiting.left; ++piece) local_ready_.push_back({dependent, piece});
    }
  }
  schedule_.Done(list_.moves[index].window);
}

}  // namespace remesh
