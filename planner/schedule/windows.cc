// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/rounds.h"
#include "planner/stable_order.h"

namespace remesh {
namespace {

// Rounding may add this much to a slice of a move: its slice and its two cuts, each to an element
// of at most 128 bits.
constexpr int64_t kRoundingBits = 3 * 128;
// A message below this is not worth cutting further.
constexpr int64_t kPartBitsMin = int64_t{8} << 18;  // 256 KiB
// More slices are not made to fill the pipeline of relays sooner: neither more than so many, nor
// smaller ones of the busiest device, nor to save less than one part in so many of the time.
constexpr int64_t kPipelineSlicesMax = 4096;
constexpr int64_t kSliceBitsMin = int64_t{8} << 20;
constexpr double kSavingMin = 1.0 / 64;
// Rounds that keep the busiest devices' messages even are looked for where unevenness costs more.
constexpr double kUnevenMax = 1.02;

// Hops in a row: more than any cluster needs, and what a packed move can count.
constexpr int32_t kStagesMax = 32000;
// Loads (rounds * devices) that packing may keep count of: 640 MiB.
constexpr int64_t kRoundLoadsMax = int64_t{1} << 24;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

absl::Status TooManyWindows(int64_t window_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.window_bytes: value \"", window_bytes, "\" would take more than ",
                   kWindowsMax, " windows"),
      {"TOO_MANY_WINDOWS",
       {{"window_bytes", absl::StrCat(window_bytes)}, {"limit", absl::StrCat(kWindowsMax)}}});
}

// What the busiest devices have to do.
struct Busiest {
  int64_t bits = 0;   // both directions and copies in place together
  int64_t moves = 0;  // with an end on the device
};

Busiest FindBusiest(const Network& network, const std::vector<Move>& moves) {
  std::vector<Busiest> devices(network.device_count());
  Busiest busiest;
  const auto add = [&](int32_t device, int64_t bits) {
    busiest.bits = std::max(busiest.bits, devices[device].bits += bits);
    busiest.moves = std::max(busiest.moves, ++devices[device].moves);
  };
  for (const Move& move : moves) {
    add(move.from_device, move.hi - move.lo);
    if (move.from_device != move.to_device) add(move.to_device, move.hi - move.lo);
  }
  return busiest;
}

// Most bits that one slice of the move can take.
int64_t SliceBits(const PlanDraft& draft, const Move& move) {
  const int64_t size = move.hi - move.lo;
  return std::min(size, size / draft.schedule.PartsOf(draft.segments[move.segment].size())) +
         kRoundingBits + 2 * draft.atoms.tapes.slack_bits;
}

bool PlaceMoves(const PairList& list, int64_t heavy_rounds, RoundPacker& packer, int64_t bits_max,
                PlanDraft& draft) {
  for (const PairWork& pair : list.pairs) {
    const auto moves = absl::MakeConstSpan(list.order).subspan(pair.first, pair.count);
    int64_t together = 0;
    for (int32_t m : moves) together += SliceBits(draft, draft.moves[m]);
    const bool split = together > bits_max;  // then each move finds a round of its own
    int32_t round = split ? 0 : packer.Place(pair.from, pair.to, together, heavy_rounds);
    for (int32_t m : moves) {
      if (split)
        round = packer.Place(pair.from, pair.to, SliceBits(draft, draft.moves[m]), heavy_rounds);
      draft.moves[m].round = round;
    }
    if (int64_t{packer.rounds()} * draft.schedule.slices > kWindowsMax) return false;
    if (packer.rounds() * static_cast<int64_t>(draft.host_of.size()) > kRoundLoadsMax) return false;
  }
  return true;
}

void SortMoves(PlanDraft& draft) {
  const std::vector<Move>& moves = draft.moves;
  std::vector<int32_t> order = StableOrder(InOrder(moves.size()), draft.schedule.stages,
                                           [&](int32_t m) { return moves[m].stage; });
  order = StableOrder(order, draft.schedule.rounds, [&](int32_t m) { return moves[m].round; });
  std::vector<Move> sorted;
  sorted.reserve(moves.size());
  for (const int32_t m : order) sorted.push_back(moves[m]);
  draft.moves = std::move(sorted);
  draft.round_begin.assign(draft.schedule.rounds + 1, 0);
  for (const Move& move : draft.moves) ++draft.round_begin[move.round + 1];
  for (int32_t r = 0; r < draft.schedule.rounds; ++r)
    draft.round_begin[r + 1] += draft.round_begin[r];
}

}  // namespace

// In one round, a pair with moves in stages l
// works in the cycles l .. l + slices - 1, and in no more of them than its moves have parts.
int64_t CountOperations(const PairList& list, const PlanDraft& draft) {
  int64_t operations = 0;
  std::vector<int32_t> moves;
  for (const PairWork& pair : list.pairs) {
    if (pair.from == pair.to) continue;
    moves.assign(list.order.begin() + pair.first, list.order.begin() + pair.first + pair.count);
    const auto place = [&](int32_t m) {
      return std::make_pair(draft.moves[m].round, draft.moves[m].stage);
    };
    std::sort(moves.begin(), moves.end(),
              [&](int32_t a, int32_t b) { return place(a) < place(b); });
    for (size_t i = 0; i < moves.size();) {
      int64_t cycles = draft.schedule.slices;
      int64_t parts = 0;
      const size_t begin = i;
      for (; i < moves.size() && place(moves[i]).first == place(moves[begin]).first; ++i) {
        if (i > begin) {
          const int32_t since = draft.moves[moves[i]].stage - draft.moves[moves[i - 1]].stage;
          cycles += std::min(since, draft.schedule.slices);
        }
        parts += draft.schedule.PartsOf(draft.segments[draft.moves[moves[i]].segment].size());
      }
      operations += std::min(cycles, parts);
    }
  }
  return operations;
}

int64_t EffectiveWindowBytes(int64_t window_bytes) {
  return std::clamp(window_bytes, kWindowBytesMin, int64_t{1} << 50);
}

namespace {

// Fewest slices, from `least` on, that are about as fast as any number.
int64_t ChooseSlices(const ScheduleCost& cost, int64_t least, int64_t most, int32_t stages) {
  if (stages == 1) return least;
  const double at_least = cost.Seconds(static_cast<int32_t>(least));
  double best = at_least;
  std::vector<std::pair<int64_t, double>> tried = {{least, at_least}};
  for (int64_t k = std::max<int64_t>(least + 1, stages); k <= most; k += (k + 3) / 4) {
    tried.emplace_back(k, cost.Seconds(static_cast<int32_t>(k)));
    best = std::min(best, tried.back().second);
  }
  return std::find_if(tried.begin(), tried.end(),
                      [&](const auto& one) { return one.second <= best * (1 + kSavingMin); })
      ->first;
}

// Moves dealt out to rounds: how many, and what that costs.
std::optional<ScheduleCost> Pack(const PairList& list, int64_t heavy_rounds, int64_t window_bits,
                                 const Network& network, PlanDraft& draft) {
  RoundPacker packer(network, window_bits, kOperationsPerWindowMax);
  if (!PlaceMoves(list, heavy_rounds, packer, window_bits, draft)) return std::nullopt;
  draft.schedule.rounds = std::max(1, packer.rounds());
  return ScheduleCost(draft, network, draft.schedule.rounds);
}

// As few rounds as operations ask for, or more where those come out uneven and more are better.
std::optional<ScheduleCost> PackWell(const PairList& list, int64_t heavy_rounds,
                                     int64_t window_bits, const Network& network,
                                     PlanDraft& draft) {
  std::optional<ScheduleCost> cost = Pack(list, heavy_rounds, window_bits, network, draft);
  const int64_t even_rounds = EvenRounds(list.pairs, network, heavy_rounds);
  if (!cost.has_value() || even_rounds == heavy_rounds) return cost;
  const int32_t slices = draft.schedule.slices;
  const double seconds = cost->Seconds(slices);
  if (seconds <= kUnevenMax * Estimate(draft, network).bottleneck_seconds) return cost;
  std::optional<ScheduleCost> even = Pack(list, even_rounds, window_bits, network, draft);
  if (even.has_value() && even->Seconds(slices) < seconds) return even;
  return Pack(list, heavy_rounds, window_bits, network, draft);
}

}  // namespace

absl::Status ScheduleWindows(const Network& network, int64_t window_bytes, int64_t slices_min,
                             PlanDraft& draft) {
  const int64_t window_bits = EffectiveWindowBytes(window_bytes) * 8;
  Schedule& schedule = draft.schedule;
  const PairList list = CollectPairs(draft.moves);
  const int64_t heavy_rounds = RoundsForHeavy(list.pairs, network, kOperationsPerWindowMax);
  const Busiest busiest = FindBusiest(network, draft.moves);
  for (const Move& move : draft.moves)
    schedule.stages = std::max<int32_t>(schedule.stages, move.stage + 1);
  const int64_t least =
      std::max(CeilDiv(CeilDiv(busiest.bits, heavy_rounds), window_bits / 2), slices_min);
  if (least > kWindowsMax || schedule.stages > kStagesMax) return TooManyWindows(window_bytes);
  schedule.slices = static_cast<int32_t>(least);
  schedule.part_bits_min = std::max<int64_t>(
      1, std::min(kPartBitsMin, window_bits / 4 / std::max<int64_t>(1, busiest.moves)));
  draft.atoms.tapes.slack_bits = std::min(draft.atoms.tapes.slack_bits, schedule.part_bits_min / 8);
  const auto cost = PackWell(list, heavy_rounds, window_bits, network, draft);
  if (!cost.has_value()) return TooManyWindows(window_bytes);
  const int64_t most = std::min(kPipelineSlicesMax, busiest.bits / schedule.rounds / kSliceBitsMin);
  schedule.slices = static_cast<int32_t>(ChooseSlices(*cost, least, most, schedule.stages));
  if ((int64_t{schedule.slices} + schedule.stages - 1) * schedule.rounds > kWindowsMax)
    return TooManyWindows(window_bytes);
  draft.summary.predicted_seconds = draft.moves.empty() ? 0 : cost->Seconds(schedule.slices);
  draft.summary.operations = CountOperations(list, draft);
  SortMoves(draft);
  return absl::OkStatus();
}

}  // namespace remesh
