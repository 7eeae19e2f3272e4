// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/network/links.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/messages.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"
#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// A message below this is not worth cutting further.
constexpr int64_t kPartBitsMin = int64_t{8} << 18;  // 256 KiB
// Limits on parts that are made only to fill the pipeline of relays sooner: the most parts, the
// least size of a part of the busiest device, and the least saving, as a fraction of the time.
constexpr int64_t kPipelinePartsMax = 4096;
constexpr int64_t kPipelinePartBitsMin = int64_t{8} << 20;
constexpr double kSavingMin = 1.0 / 64;
// More even rounds for the busiest devices' messages are looked for where unevenness costs more
// than this.
constexpr double kUnevenMax = 1.02;
// This many times the least rounds are tried where unevenness costs still more: hosts may then have
// more pairs in all, so that heavy pairs can be cut finer.
constexpr double kVeryUnevenMax = 1.10;
constexpr int64_t kMoreRounds = 6;

// Most hops in a row: more than any cluster needs; a packed move can count them.
constexpr int32_t kHopsMax = 32000;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

absl::Status TooManyWindows(int64_t window_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("options.window_bytes: value \"", window_bytes, "\" would take more than ",
                   kWindowsMax, " windows"),
      {"TOO_MANY_WINDOWS",
       {{"window_bytes", absl::StrCat(window_bytes)}, {"limit", absl::StrCat(kWindowsMax)}}});
}

// The work of the busiest devices.
struct Busiest {
  int64_t bits = 0;   // both directions and copies in place together
  int64_t moves = 0;  // with an end on the device
};

Busiest FindBusiest(const Network& network, const std::vector<Move>& moves, Budget& budget) {
  std::vector<Busiest> devices(network.device_count());
  Busiest busiest;
  const auto add = [&](int32_t device, int64_t bits) {
    busiest.bits = std::max(busiest.bits, devices[device].bits += bits);
    busiest.moves = std::max(busiest.moves, ++devices[device].moves);
  };
  for (const Move& move : moves) {
    if (budget.Spent()) break;
    add(move.from_device, move.hi - move.lo);
    if (move.from_device != move.to_device) add(move.to_device, move.hi - move.lo);
  }
  return busiest;
}

// Moves by round, then hop. Empty once the budget is spent.
std::vector<Move> Sorted(const std::vector<Move>& moves, const Schedule& schedule, Budget& budget) {
  std::vector<int32_t> order = StableOrder(
      InOrder(moves.size()), schedule.hops, [&](int32_t m) { return moves[m].hop; }, budget);
  if (budget.SpentNow()) return {};
  order = StableOrder(
      order, schedule.rounds, [&](int32_t m) { return moves[m].round; }, budget);
  if (budget.SpentNow()) return {};
  std::vector<Move> sorted;
  Reserve(sorted, moves.size());
  for (const int32_t m : order) {
    if (budget.Spent()) break;
    sorted.push_back(moves[m]);
  }
  return sorted;
}

// The result must not be used once the budget is spent.
std::vector<int32_t> RoundBegins(const std::vector<Move>& moves, int32_t rounds, Budget& budget) {
  std::vector<int32_t> begin(rounds + 1, 0);
  for (const Move& move : moves) {
    if (budget.Spent()) return begin;
    ++begin[move.round + 1];
  }
  for (int32_t r = 0; r < rounds; ++r) begin[r + 1] += begin[r];
  return begin;
}

}  // namespace

int64_t EffectiveWindowBytes(int64_t window_bytes) {
  return std::min(window_bytes, int64_t{1} << 50);
}

namespace {

// The fewest parts, from `least` on, that are about as fast as any other number.
int64_t ChooseParts(const ScheduleCost& cost, int64_t least, int64_t most, int32_t hops,
                    Budget& budget) {
  if (hops == 1) return least;
  const double at_least = cost.Seconds(static_cast<int32_t>(least));
  double best = at_least;
  std::vector<std::pair<int64_t, double>> tried = {{least, at_least}};
  for (int64_t k = std::max<int64_t>(least + 1, hops); k <= most && !budget.SpentNow();
       k += (k + 3) / 4) {
    tried.emplace_back(k, cost.Seconds(static_cast<int32_t>(k)));
    best = std::min(best, tried.back().second);
  }
  return std::find_if(tried.begin(), tried.end(),
                      [&](const auto& one) { return one.second <= best * (1 + kSavingMin); })
      ->first;
}

// Finds the number of rounds that is fastest.
class Scheduler {
 public:
  // `list`: the pairs of the moves. `schedule` is complete except for parts and rounds.
  Scheduler(const Moves& moves, PairList list, const Atoms& atoms, const Links& links,
            const Schedule& schedule, const Busiest& busiest, int64_t window_bits,
            int64_t parts_min, Budget& budget)
      : moves_(moves),
        atoms_(atoms),
        links_(links),
        schedule_(schedule),
        busiest_(busiest),
        window_bits_(window_bits),
        parts_min_(parts_min),
        budget_(budget),
        list_(std::move(list)),
        shares_(list_.pairs, links) {}

  // nullopt when the schedule takes too many windows.
  std::optional<Timeline> Run() && {
    if (budget_.SpentNow()) return std::nullopt;
    const int64_t least =
        RoundsForHeavy(list_.pairs, links_.network(), kMessagesPerWindowMax, budget_);
    Try(least);
    if (least > 1) TryMore(least);
    if (!best_) return std::nullopt;
    Timeline timeline;
    timeline.schedule = best_->schedule;
    timeline.predicted_seconds = best_->seconds;
    const bool cut = best_->moves.size() != moves_.moves.size();
    timeline.messages =
        CountMessages(cut ? CollectPairs(best_->moves, budget_) : list_, best_->moves,
                      moves_.segments, best_->schedule, atoms_, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    timeline.moves = Sorted(best_->moves, best_->schedule, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    timeline.round_begin = RoundBegins(timeline.moves, best_->schedule.rounds, budget_);
    return timeline;
  }

 private:
  struct Found {
    std::vector<Move> moves;
    Schedule schedule;
    double seconds = 0;
    double steady = 0;  // of its full windows only
  };

  // Tries more rounds than `least` where those of the best schedule are too uneven.
  void TryMore(int64_t least) {
    if (budget_.SpentNow()) return;
    const Cost cost = Estimate(moves_.moves, links_, budget_);
    if (budget_.SpentNow()) return;
    const double bound = std::max(cost.bottleneck_seconds, cost.fabric_seconds);
    const auto uneven = [&](double most) { return !best_ || best_->steady > most * bound; };
    const int64_t even = EvenRounds(list_.pairs, links_.network(), least, budget_);
    if (uneven(kUnevenMax) && even != least) Try(even);
    if (uneven(kVeryUnevenMax)) Try(kMoreRounds * least);
  }

  // Schedules over `rounds` rounds and keeps the result if it is the fastest so far.
  void Try(int64_t rounds) {
    if (budget_.SpentNow()) return;
    std::optional<Found> found = Scheduled(rounds);
    if (found && (!best_ || found->seconds < best_->seconds)) best_ = std::move(found);
  }

  std::optional<Found> Scheduled(int64_t rounds) const {
    Found found{.moves = {}, .schedule = schedule_};
    Schedule& schedule = found.schedule;
    const int64_t least =
        std::max(CeilDiv(CeilDiv(busiest_.bits, rounds), window_bits_ / 2), parts_min_);
    if (least > kWindowsMax) return std::nullopt;
    schedule.parts = static_cast<int32_t>(least);
    std::optional<PlacedMoves> placed =
        PlaceMoves(moves_, atoms_, schedule, list_, shares_, rounds, window_bits_, budget_);
    if (!placed || budget_.SpentNow()) return std::nullopt;
    schedule.rounds = placed->rounds;
    found.moves = std::move(placed->moves);
    const ScheduleCost cost(found.moves, schedule.rounds, schedule.hops, links_, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    const int64_t most =
        std::min(kPipelinePartsMax, busiest_.bits / schedule.rounds / kPipelinePartBitsMin);
    schedule.parts = static_cast<int32_t>(ChooseParts(cost, least, most, schedule.hops, budget_));
    found.seconds = found.moves.empty() ? 0 : cost.Seconds(schedule.parts);
    found.steady = cost.SteadySeconds();
    if ((int64_t{schedule.parts} + schedule.hops - 1) * schedule.rounds > kWindowsMax) {
      return std::nullopt;
    }
    return found;
  }

  const Moves& moves_;
  const Atoms& atoms_;
  const Links& links_;
  const Schedule schedule_;
  const Busiest busiest_;
  const int64_t window_bits_;
  const int64_t parts_min_;
  Budget& budget_;
  const PairList list_;
  const Shares shares_;
  std::optional<Found> best_;
};

// The schedule as far as the moves alone determine it. The result must not be used once the budget
// is spent.
Schedule BareSchedule(const Moves& moves, const Busiest& busiest, int64_t window_bits,
                      Budget& budget) {
  Schedule schedule;
  for (const Move& move : moves.moves) {
    if (budget.Spent()) return schedule;
    schedule.hops = std::max<int32_t>(schedule.hops, move.hop + 1);
  }
  schedule.min_part_bits = std::max<int64_t>(
      1, std::min(kPartBitsMin, window_bits / 4 / std::max<int64_t>(1, busiest.moves)));
  schedule.slack_bits = std::min(moves.slack_bits, schedule.min_part_bits / 8);
  return schedule;
}

}  // namespace

absl::StatusOr<Timeline> ScheduleWindows(const Moves& moves, const Atoms& atoms,
                                         const Network& network, int64_t window_bytes,
                                         int64_t parts_min, Budget& budget) {
  const int64_t window_bits = EffectiveWindowBytes(window_bytes) * 8;
  const Busiest busiest = FindBusiest(network, moves.moves, budget);
  RETURN_IF_ERROR(budget.Check());
  const Schedule schedule = BareSchedule(moves, busiest, window_bits, budget);
  RETURN_IF_ERROR(budget.Check());
  if (schedule.hops > kHopsMax) return TooManyWindows(window_bytes);
  const Links links(network);
  PairList list = CollectPairs(moves.moves, budget);
  RETURN_IF_ERROR(budget.Check());
  std::optional<Timeline> timeline = Scheduler(moves, std::move(list), atoms, links, schedule,
                                               busiest, window_bits, parts_min, budget)
                                         .Run();
  RETURN_IF_ERROR(budget.Check());
  if (!timeline) return TooManyWindows(window_bytes);
  return *std::move(timeline);
}

}  // namespace remesh::planner
