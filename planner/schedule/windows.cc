// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"
#include "planner/values/stable_order.h"

namespace remesh {
namespace {

// A message below this is not worth cutting further.
constexpr int64_t kPartBitsMin = int64_t{8} << 18;  // 256 KiB
// More slices are not made to fill the pipeline of relays sooner: neither more than so many, nor
// smaller ones of the busiest device, nor to save less than one part in so many of the time.
constexpr int64_t kPipelineSlicesMax = 4096;
constexpr int64_t kSliceBitsMin = int64_t{8} << 20;
constexpr double kSavingMin = 1.0 / 64;
// Rounds that keep the busiest devices' messages even are looked for where unevenness costs more.
constexpr double kUnevenMax = 1.02;
// So many times the least rounds are tried where unevenness costs still more: hosts may have more
// pairs then in all, so that heavy ones can be cut finer.
constexpr double kVeryUnevenMax = 1.10;
constexpr int64_t kMoreRounds = 6;

// Hops in a row: more than any cluster needs, and what a packed move can count.
constexpr int32_t kStagesMax = 32000;

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

int64_t EffectiveWindowBytes(int64_t window_bytes) {
  return std::clamp(window_bytes, kWindowBytesMin, int64_t{1} << 50);
}

namespace {

// Fewest slices, from `least` on, that are about as fast as any number.
int64_t ChooseSlices(const ScheduleCost& cost, int64_t least, int64_t most, int32_t stages,
                     Budget& budget) {
  if (stages == 1) return least;
  const double at_least = cost.Seconds(static_cast<int32_t>(least));
  double best = at_least;
  std::vector<std::pair<int64_t, double>> tried = {{least, at_least}};
  for (int64_t k = std::max<int64_t>(least + 1, stages); k <= most && !budget.SpentNow();
       k += (k + 3) / 4) {
    tried.emplace_back(k, cost.Seconds(static_cast<int32_t>(k)));
    best = std::min(best, tried.back().second);
  }
  return std::find_if(tried.begin(), tried.end(),
                      [&](const auto& one) { return one.second <= best * (1 + kSavingMin); })
      ->first;
}

// Looks for the number of rounds that is fastest.
class Scheduler {
 public:
  Scheduler(const Network& network, int64_t window_bits, int64_t slices_min, const Busiest& busiest,
            PlanDraft& draft)
      : network_(network),
        window_bits_(window_bits),
        slices_min_(slices_min),
        draft_(draft),
        busiest_(busiest),
        list_(CollectPairs(draft.moves)),
        shares_(list_.pairs, network) {}

  // Sets rounds, slices and the predicted seconds; false where that takes too many windows.
  bool Run() {
    const int64_t least = RoundsForHeavy(list_.pairs, network_, kOperationsPerWindowMax);
    if (draft_.budget->SpentNow()) return false;
    if (least == 1) return Try(1);
    whole_ = draft_.moves;
    const Cost cost = Estimate(draft_, network_);
    const double bound = std::max(cost.bottleneck_seconds, cost.fabric_seconds);
    const auto uneven = [&](double most) { return !found_ || steady_ > most * bound; };
    Keep(least);
    const int64_t even = EvenRounds(list_.pairs, network_, least);
    if (uneven(kUnevenMax) && even != least) KeepFaster(even);
    if (uneven(kVeryUnevenMax)) KeepFaster(kMoreRounds * least);
    draft_.moves = std::move(moves_);
    draft_.schedule = schedule_;
    draft_.summary.predicted_seconds = seconds_;
    return found_;
  }

  // After Run(): messages of the schedule. Where moves were cut, there are more than before.
  int64_t Operations() const {
    const bool cut = !whole_.empty() && draft_.moves.size() != whole_.size();
    return CountOperations(cut ? CollectPairs(draft_.moves) : list_, draft_);
  }

 private:
  bool Try(int64_t rounds) {
    Schedule& schedule = draft_.schedule;
    const int64_t least =
        std::max(CeilDiv(CeilDiv(busiest_.bits, rounds), window_bits_ / 2), slices_min_);
    if (least > kWindowsMax) return false;
    schedule.slices = static_cast<int32_t>(least);
    if (!PlaceMoves(list_, shares_, rounds, window_bits_, network_, draft_)) return false;
    const ScheduleCost cost(draft_, network_, schedule.rounds);
    const int64_t most =
        std::min(kPipelineSlicesMax, busiest_.bits / schedule.rounds / kSliceBitsMin);
    schedule.slices =
        static_cast<int32_t>(ChooseSlices(cost, least, most, schedule.stages, *draft_.budget));
    draft_.summary.predicted_seconds = draft_.moves.empty() ? 0 : cost.Seconds(schedule.slices);
    steady_tried_ = cost.SteadySeconds();
    return (int64_t{schedule.slices} + schedule.stages - 1) * schedule.rounds <= kWindowsMax;
  }

  // From the moves as they were, which an earlier try has cut.
  void KeepFaster(int64_t rounds) {
    if (draft_.budget->SpentNow()) return;
    draft_.moves = whole_;
    Keep(rounds);
  }

  // Keeps what comes of so many rounds if it is the fastest so far.
  void Keep(int64_t rounds) {
    if (draft_.budget->SpentNow() || !Try(rounds)) return;
    if (found_ && draft_.summary.predicted_seconds >= seconds_) return;
    found_ = true;
    moves_ = std::move(draft_.moves);
    schedule_ = draft_.schedule;
    seconds_ = draft_.summary.predicted_seconds;
    steady_ = steady_tried_;
  }

  const Network& network_;
  const int64_t window_bits_;
  const int64_t slices_min_;
  PlanDraft& draft_;
  const Busiest busiest_;
  const PairList list_;
  const Shares shares_;
  std::vector<Move> whole_;
  bool found_ = false;  // the best so far
  std::vector<Move> moves_;
  Schedule schedule_;
  double seconds_ = 0;
  double steady_ = 0;  // of its full windows alone
  double steady_tried_ = 0;
};

}  // namespace

absl::Status ScheduleWindows(const Network& network, int64_t window_bytes, int64_t slices_min,
                             PlanDraft& draft) {
  const int64_t window_bits = EffectiveWindowBytes(window_bytes) * 8;
  Schedule& schedule = draft.schedule;
  for (const Move& move : draft.moves)
    schedule.stages = std::max<int32_t>(schedule.stages, move.stage + 1);
  const Busiest busiest = FindBusiest(network, draft.moves);
  if (schedule.stages > kStagesMax) return TooManyWindows(window_bytes);
  schedule.min_part_bits = std::max<int64_t>(
      1, std::min(kPartBitsMin, window_bits / 4 / std::max<int64_t>(1, busiest.moves)));
  draft.atoms.tapes.slack_bits = std::min(draft.atoms.tapes.slack_bits, schedule.min_part_bits / 8);
  Scheduler scheduler(network, window_bits, slices_min, busiest, draft);
  const bool found = scheduler.Run();
  RETURN_IF_ERROR(draft.budget->Check());
  if (!found) return TooManyWindows(window_bytes);
  draft.summary.operations = scheduler.Operations();
  RETURN_IF_ERROR(draft.budget->Check());
  SortMoves(draft);
  return absl::OkStatus();
}

}  // namespace remesh
