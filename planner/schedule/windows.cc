// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <algorithm>
#include <limits>
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
#include "planner/values/rational.h"
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
// A schedule is good when it takes at most this many times as long as the busiest link, regardless
// of what messages cost beside their bytes.
constexpr double kPriceMax = 1.02;
// Where one round takes at most this many times as long as the busiest link, messages included,
// and fewer than so many rounds would make messages large, more rounds are not tried.
constexpr double kCheapMax = 1.03;
constexpr int64_t kSmallRounds = 4;
// A schedule of this many times the parts that it needs is worth a comparison with fewer rounds.
constexpr double kStretchedMin = 1.25;
// With several rounds messages come to about this size where there are bytes enough for that.
constexpr int64_t kMessageBits = int64_t{128} << 20;  // 16 MiB

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

// Puts values[order[i]] at i, for all i.
template <typename T>
void Permute(std::vector<int32_t> order, std::vector<T>& values, Budget& budget) {
  for (int32_t first = 0; first < std::ssize(order) && !budget.Spent(); ++first) {
    if (order[first] == first) continue;
    const T kept = values[first];
    int32_t at = first;
    while (order[at] != first && !budget.Spent()) {
      values[at] = values[order[at]];
      at = std::exchange(order[at], at);
    }
    values[at] = kept;
    order[at] = at;
  }
}

// Sorts moves by round, then hop. They must not be used once the budget is spent.
void Sort(const Schedule& schedule, std::vector<Move>& moves, Budget& budget) {
  if (schedule.hops == 1 && schedule.rounds == 1) return;
  std::vector<int32_t> order = StableOrder(
      InOrder(moves.size()), schedule.hops, [&](int32_t m) { return moves[m].hop; }, budget);
  if (budget.SpentNow()) return;
  order = StableOrder(
      order, schedule.rounds, [&](int32_t m) { return moves[m].round; }, budget);
  if (budget.SpentNow()) return;
  Permute(std::move(order), moves, budget);
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

// Chooses the number of parts of a schedule.
class PartsChooser {
 public:
  struct Choice {
    int64_t parts = 0;
    Prediction prediction;
  };

  // `bound`: seconds of the busiest link.
  PartsChooser(const ScheduleCost& cost, double bound, Budget& budget)
      : cost_(cost), bound_(bound), budget_(budget) {}

  // The fewest parts in [least, most] that are about as fast as any other number, or as any that
  // makes a good schedule if there is one.
  Choice Choose(int64_t least, int64_t most, int32_t hops) {
    Try(least);
    // No number of parts is faster than the busiest link.
    const Prediction& first = tried_.front().prediction;
    const bool enough = IsGood(first) && first.seconds <= bound_ * (1 + kSavingMin);
    if (hops == 1 || enough) return tried_.front();
    for (int64_t k = std::max<int64_t>(least + 1, hops); k <= most && !budget_.SpentNow();
         k += (k + 3) / 4) {
      if (any_good_ && cost_.LeastSeconds(static_cast<int32_t>(k)) > best_) break;
      Try(k);
    }
    const auto found = std::find_if(tried_.begin(), tried_.end(),
                                    [&](const Choice& one) { return IsEnough(one.prediction); });
    if (found == tried_.begin()) return *found;
    return Fewest((found - 1)->parts, *found);
  }

 private:
  bool IsGood(const Prediction& one) const { return one.schedule_seconds <= kPriceMax * bound_; }
  bool IsEnough(const Prediction& one) const {
    return IsGood(one) == any_good_ && one.seconds <= best_ * (1 + kSavingMin);
  }

  void Try(int64_t parts) {
    const Prediction one = cost_.Predict(static_cast<int32_t>(parts));
    tried_.push_back({parts, one});
    if (IsGood(one) < any_good_) return;
    best_ = IsGood(one) > any_good_ ? one.seconds : std::min(best_, one.seconds);
    any_good_ = IsGood(one);
  }

  // The fewest parts in (few, enough.parts] that are enough, give or take one in 32.
  Choice Fewest(int64_t few, Choice enough) const {
    while (enough.parts - few > std::max<int64_t>(1, few / 32) && !budget_.SpentNow()) {
      const int64_t middle = few + (enough.parts - few) / 2;
      const Prediction one = cost_.Predict(static_cast<int32_t>(middle));
      if (IsEnough(one)) {
        enough = {middle, one};
      } else {
        few = middle;
      }
    }
    return enough;
  }

  const ScheduleCost& cost_;
  const double bound_;
  Budget& budget_;
  std::vector<Choice> tried_;
  bool any_good_ = false;
  double best_ = std::numeric_limits<double>::infinity();
};

// Finds the number of rounds that is fastest.
class Scheduler {
 public:
  // `list`: the pairs of the moves, of which Run() takes the vector. `schedule` is complete except
  // for parts and rounds.
  Scheduler(Moves& moves, PairList list, const Atoms& atoms, const Links& links,
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
    const HeavyPairs heavy = CountHeavyPairs(list_.pairs, links_.network(), budget_);
    if (budget_.SpentNow()) return std::nullopt;
    const Cost cost = Estimate(moves_.moves, links_, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    bound_ = std::max(cost.bottleneck_seconds, cost.fabric_seconds);
    TryRounds(heavy);
    if (!best_) return std::nullopt;
    Timeline timeline;
    timeline.schedule = best_->schedule;
    timeline.predicted_seconds = best_->prediction.seconds;
    timeline.schedule_seconds = best_->prediction.schedule_seconds;
    SetRounds(best_->round_of);
    timeline.moves = std::move(best_->list ? best_->moves : moves_.moves);
    moves_.moves = std::vector<Move>();
    timeline.messages = CountMessages(best_->list ? *best_->list : list_, timeline.moves,
                                      moves_.segments, best_->schedule, atoms_, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    list_ = {};  // before more memory is taken
    Sort(best_->schedule, timeline.moves, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    timeline.round_begin = RoundBegins(timeline.moves, best_->schedule.rounds, budget_);
    return timeline;
  }

 private:
  struct Found {
    std::vector<int32_t> round_of;  // of moves_, unless some of them are cut: then
    std::vector<Move> moves;        // the moves,
    std::optional<PairList> list;   // and their pairs
    Schedule schedule;
    Prediction prediction;
  };

  // One round will do where messages then cost little. Otherwise tries fewer and fewer rounds until
  // a schedule is good: first as many as make messages large. Where that takes more windows than
  // the limit on their bytes asks for, to fill the pipeline of relays in time, fewer rounds may be
  // faster still; rounds whose half takes no more windows than relays ask for are not tried.
  void TryRounds(const HeavyPairs& heavy) {
    const int64_t least =
        std::max<int64_t>(1, CeilDiv(heavy.most_of_device, kMessagesPerWindowMax));
    int64_t rounds = std::max(least, RoundsForLargeMessages(heavy));
    if (least == 1) {
      Try(1);
      if (rounds == 1) return;
      const bool cheap = IsGood() && best_->prediction.seconds <= kCheapMax * bound_;
      if (rounds < kSmallRounds && cheap) return;
    }
    const int64_t last = std::max<int64_t>(2, least);
    const int64_t needed = PartsForPipeline(PartsFor(rounds));
    const auto fewer = [&] { return std::max(last, rounds / 2); };
    while (rounds > last && PartsFor(fewer()) <= needed) rounds = fewer();
    while (!budget_.SpentNow()) {
      const Outcome outcome = Try(rounds);
      if (outcome.is_good && !(outcome.is_best && IsStretched())) return;
      if (rounds <= last) return;
      rounds = fewer();
    }
  }

  // The parts, `least` or more, that relays ask for, as if all moves were in one round.
  int64_t PartsForPipeline(int64_t least) {
    if (schedule_.hops == 1 || least > kWindowsMax) return least;
    for (Move& move : moves_.moves) move.round = 0;  // else as they were tried last
    const int64_t most =
        std::max(least, std::min(kPipelinePartsMax, busiest_.bits / kPipelinePartBitsMin));
    const ScheduleCost cost(moves_.moves, list_, moves_.segments, schedule_,
                            static_cast<int32_t>(most), links_, budget_);
    if (budget_.SpentNow()) return least;
    return PartsChooser(cost, bound_, budget_).Choose(least, most, schedule_.hops).parts;
  }

  // In one round, a heavy pair sends a message in each of the windows that the limit on their bytes
  // asks for; in more rounds, it sends fewer and larger ones. There are no fewer of them where
  // memory asks for more windows.
  int64_t RoundsForLargeMessages(const HeavyPairs& heavy) const {
    int64_t bits = 0;
    for (const PairWork& pair : list_.pairs) bits += pair.from == pair.to ? 0 : pair.bits;
    const int64_t large = std::max<int64_t>(1, bits / kMessageBits);
    const int64_t parts = PartsFor(1);
    return std::min(
        {heavy.most_of_device, CeilDiv(parts, parts_min_), MulDiv(heavy.count, parts, large)});
  }

  // The fewest parts that keep windows over `rounds` rounds within their limit.
  int64_t PartsFor(int64_t rounds) const {
    return std::max(CeilDiv(CeilDiv(busiest_.bits, rounds), window_bits_ / 2), parts_min_);
  }

  bool IsGood() const { return best_ && IsGood(*best_); }
  bool IsGood(const Found& found) const {
    return found.prediction.schedule_seconds <= kPriceMax * bound_;
  }
  // Fewer parts mean fewer messages.
  bool IsBetter(const Found& found) const {
    if (!best_ || IsGood(found) != IsGood()) return !best_ || IsGood(found);
    const bool fewer = found.schedule.parts < best_->schedule.parts;
    const double seconds = found.prediction.seconds;
    const double best = best_->prediction.seconds;
    return fewer ? seconds <= best * (1 + kSavingMin) : seconds * (1 + kSavingMin) < best;
  }

  struct Outcome {
    bool is_good = false;
    bool is_best = false;
  };

  // Schedules over `rounds` rounds and keeps the result if it is the best so far.
  Outcome Try(int64_t rounds) {
    std::optional<Found> found = Scheduled(rounds);
    if (!found) return {};
    const Outcome outcome{.is_good = IsGood(*found), .is_best = IsBetter(*found)};
    if (outcome.is_best) best_ = std::move(found);
    return outcome;
  }

  // Whether the best schedule takes more windows than the limit on their bytes asks for.
  bool IsStretched() const {
    const Schedule& schedule = best_->schedule;
    return schedule.parts > PartsFor(schedule.rounds) * kStretchedMin;
  }

  void SetRounds(const std::vector<int32_t>& round_of) {
    for (size_t m = 0; m < round_of.size() && !budget_.Spent(); ++m) {
      moves_.moves[m].round = round_of[m];
    }
  }

  std::optional<Found> Scheduled(int64_t rounds) {
    Found found{.round_of = {}, .moves = {}, .list = {}, .schedule = schedule_};
    Schedule& schedule = found.schedule;
    const int64_t least = PartsFor(rounds);
    if (least > kWindowsMax) return std::nullopt;
    schedule.parts = static_cast<int32_t>(least);
    std::optional<PlacedMoves> placed =
        PlaceMoves(moves_, atoms_, schedule, list_, shares_, rounds, window_bits_, budget_);
    if (!placed || budget_.SpentNow()) return std::nullopt;
    schedule.rounds = placed->rounds;
    found.round_of = std::move(placed->round_of);
    found.moves = std::move(placed->moves);
    SetRounds(found.round_of);
    const bool cut = !found.moves.empty();
    if (cut) found.list = CollectPairs(found.moves, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    const int64_t most = std::max(
        least, std::min(kPipelinePartsMax, busiest_.bits / schedule.rounds / kPipelinePartBitsMin));
    const ScheduleCost cost(cut ? found.moves : moves_.moves, cut ? *found.list : list_,
                            moves_.segments, schedule, static_cast<int32_t>(most), links_, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    const auto choice = PartsChooser(cost, bound_, budget_).Choose(least, most, schedule.hops);
    schedule.parts = static_cast<int32_t>(choice.parts);
    if (!moves_.moves.empty()) found.prediction = choice.prediction;
    if ((int64_t{schedule.parts} + schedule.hops - 1) * schedule.rounds > kWindowsMax) {
      return std::nullopt;
    }
    return found;
  }

  Moves& moves_;
  const Atoms& atoms_;
  const Links& links_;
  const Schedule schedule_;
  const Busiest busiest_;
  const int64_t window_bits_;
  const int64_t parts_min_;
  Budget& budget_;
  PairList list_;
  const Shares shares_;
  double bound_ = 0;  // seconds of the busiest link
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

absl::StatusOr<Timeline> ScheduleWindows(Moves& moves, const Atoms& atoms, const Network& network,
                                         int64_t window_bytes, int64_t parts_min, Budget& budget) {
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
