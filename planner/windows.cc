// SPDX-License-Identifier: Apache-2.0
#include "planner/windows.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

// Rounding may add this much to a slice of a move: two cuts, each to an element of at most 128
// bits.
constexpr int64_t kRoundingBits = 258;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

absl::Status TooManyWindows(int64_t window_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.window_bytes: value \"", window_bytes, "\" would take more than ",
                   kWindowsMax, " windows"),
      {"TOO_MANY_WINDOWS",
       {{"window_bytes", absl::StrCat(window_bytes)}, {"limit", absl::StrCat(kWindowsMax)}}});
}

// What one round holds so far.
struct Round {
  std::vector<int64_t> bits;        // per device
  std::vector<int32_t> operations;  // per host
  absl::flat_hash_set<int64_t> pairs;
};

class RoundPacker {
 public:
  RoundPacker(const Network& network, int64_t window_bits, int64_t slices)
      : network_(network), window_bits_(window_bits), slices_(slices) {}

  // False when the windows would be too many.
  bool Place(Move& move) {
    const int64_t size = move.hi - move.lo;
    const int64_t bits = std::min(size, size / slices_ + kRoundingBits);
    size_t r = 0;
    while (r < rounds_.size() && !Fits(rounds_[r], move, bits)) ++r;
    if (r == rounds_.size()) {
      if ((static_cast<int64_t>(r) + 1) * slices_ > kWindowsMax) return false;
      rounds_.push_back({.bits = std::vector<int64_t>(network_.device_count(), 0),
                         .operations = std::vector<int32_t>(network_.host_count(), 0),
                         .pairs = {}});
    }
    Add(rounds_[r], move, bits);
    move.round = static_cast<int32_t>(r);
    return true;
  }

  int32_t rounds() const { return std::max<int32_t>(1, static_cast<int32_t>(rounds_.size())); }

 private:
  int64_t PairOf(const Move& move) const {
    return int64_t{move.from_device} * network_.device_count() + move.to_device;
  }

  bool Fits(const Round& round, const Move& move, int64_t bits) const {
    for (int32_t device : {move.from_device, move.to_device}) {
      if (round.bits[device] > 0 && round.bits[device] + bits > window_bits_) return false;
    }
    if (move.from_device == move.to_device || round.pairs.contains(PairOf(move))) return true;
    for (int32_t device : {move.from_device, move.to_device}) {
      if (round.operations[network_.host_of[device]] >= kOperationsPerWindowMax) return false;
    }
    return true;
  }

  void Add(Round& round, const Move& move, int64_t bits) {
    round.bits[move.from_device] += bits;
    if (move.from_device == move.to_device) return;
    round.bits[move.to_device] += bits;
    if (!round.pairs.insert(PairOf(move)).second) return;
    const int32_t from = network_.host_of[move.from_device];
    const int32_t to = network_.host_of[move.to_device];
    ++round.operations[from];
    if (from != to) ++round.operations[to];
  }

  const Network& network_;
  const int64_t window_bits_;
  const int64_t slices_;
  std::vector<Round> rounds_;
};

// Bits through the busiest device, both directions and copies in place together.
int64_t BusiestDeviceBits(const Network& network, const std::vector<Move>& moves) {
  std::vector<int64_t> bits(network.device_count(), 0);
  for (const Move& move : moves) {
    bits[move.from_device] += move.hi - move.lo;
    if (move.from_device != move.to_device) bits[move.to_device] += move.hi - move.lo;
  }
  return bits.empty() ? 0 : *std::max_element(bits.begin(), bits.end());
}

// Fewest rounds that keep the pairs of every host within the limit.
int64_t RoundsForPairs(const Network& network, const std::vector<Move>& moves) {
  absl::flat_hash_set<int64_t> pairs;
  std::vector<int64_t> operations(network.host_count(), 0);
  for (const Move& move : moves) {
    if (move.from_device == move.to_device) continue;
    if (!pairs.insert(int64_t{move.from_device} * network.device_count() + move.to_device).second) {
      continue;
    }
    const int32_t from = network.host_of[move.from_device];
    const int32_t to = network.host_of[move.to_device];
    ++operations[from];
    if (from != to) ++operations[to];
  }
  int64_t most = 1;
  for (int64_t count : operations) most = std::max(most, count);
  return CeilDiv(most, kOperationsPerWindowMax);
}

}  // namespace

int64_t EffectiveWindowBytes(int64_t window_bytes) {
  return std::clamp(window_bytes, kWindowBytesMin, int64_t{1} << 50);
}

absl::Status ScheduleWindows(const Network& network, int64_t window_bytes, Plan::Rep& rep) {
  const int64_t window_bits = EffectiveWindowBytes(window_bytes) * 8;
  const int64_t usable = window_bits < 8192 ? window_bits / 2 : window_bits - window_bits / 8;
  const int64_t rounds = RoundsForPairs(network, rep.moves);
  const int64_t slices =
      std::max<int64_t>(1, CeilDiv(CeilDiv(BusiestDeviceBits(network, rep.moves), rounds), usable));
  if (slices > kWindowsMax) return TooManyWindows(window_bytes);
  RoundPacker packer(network, window_bits, slices);
  int32_t stages = 1;
  for (Move& move : rep.moves) {
    if (!packer.Place(move)) return TooManyWindows(window_bytes);
    stages = std::max<int32_t>(stages, move.stage + 1);
  }
  std::stable_sort(rep.moves.begin(), rep.moves.end(), [](const Move& a, const Move& b) {
    return a.round != b.round ? a.round < b.round : a.stage < b.stage;
  });
  rep.slices = static_cast<int32_t>(slices);
  rep.rounds = packer.rounds();
  rep.stages = stages;
  if ((slices + stages - 1) * rep.rounds > kWindowsMax) return TooManyWindows(window_bytes);
  rep.round_begin.assign(rep.rounds + 1, 0);
  for (const Move& move : rep.moves) ++rep.round_begin[move.round + 1];
  for (int32_t r = 0; r < rep.rounds; ++r) rep.round_begin[r + 1] += rep.round_begin[r];
  return absl::OkStatus();
}

}  // namespace remesh
