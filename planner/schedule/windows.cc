// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/windows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/network/links.h"
#include "planner/schedule/cost_model.h"
#include "planner/schedule/earliest_hops.h"
#include "planner/schedule/messages.h"
#include "planner/schedule/move_pieces.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/rounds.h"
#include "planner/schedule/shares.h"
#include "planner/values/block_sort.h"
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
// The part of the time that a small fraction of the messages is worth, and in short plans.
constexpr double kFewerMessagesWorth = 0.1;
constexpr double kFewerMessagesWorthShort = 0.06;
// A schedule is good when it takes at most this many times as long as the busiest link, regardless
// of what messages cost beside their bytes.
constexpr double kPriceMax = 1.02;
// Plans shorter than this many hand-overs a hop have a wider limit: see SlowestGood().
constexpr double kShortHandOvers = 100;
constexpr double kShortPriceMax = 1.05;
// A schedule of this many times the parts that it needs is worth a comparison with fewer rounds.
constexpr double kStretchedMin = 1.25;
// With several rounds messages come to about this size where there are bytes enough for that.
constexpr int64_t kMessageBits = int64_t{256} << 20;  // 32 MiB
// The same without relays, which alone would ask for parts, and where so few pairs are soon dealt
// out to more rounds.
constexpr int64_t kLargerMessageBits = int64_t{512} << 20;  // 64 MiB
constexpr size_t kPairsForLarger = size_t{1} << 15;
// Where messages make a plan take this many times as long as its busiest link, more numbers of
// rounds are tried.
constexpr double kDear = 1.08;
// Where they make a long plan take this many times as long, other moves may do better.
constexpr double kDearest = 1.10;
// With more pairs of devices than this one number of rounds takes seconds to try.
constexpr size_t kPairsForMore = size_t{1} << 20;

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

// Sorts moves by round, then hop. They must not be used once the budget is spent.
void Sort(const Schedule& schedule, std::vector<Move>& moves, Budget& budget) {
  if (schedule.hops == 1 && schedule.rounds == 1) return;
  const size_t keys = static_cast<size_t>(schedule.rounds) * schedule.hops;
  BlockSort<Move>(moves, keys, budget).Run([&](const Move& move) {
    return move.round * schedule.hops + move.hop;
  });
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

  // `bound`: seconds of the busiest link; `good`: of the slowest good schedule.
  PartsChooser(const ScheduleCost& cost, double bound, double good, Budget& budget)
      : cost_(cost), bound_(bound), good_(good), budget_(budget) {}

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
  bool IsGood(const Prediction& one) const { return one.schedule_seconds <= good_; }
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
  const double good_;
  Budget& budget_;
  std::vector<Choice> tried_;
  bool any_good_ = false;
  double best_ = std::numeric_limits<double>::infinity();
};

bool IsShort(double bound, int32_t hops) {
  return bound < kShortHandOvers * hops * kHandOverSeconds;
}

// The most seconds of a good schedule. In short plans hand-overs count beside the bytes: of K parts
// of h hops, each of the K + h windows takes one, which is least for K = sqrt(h * bound /
// hand-over).
double SlowestGood(double bound, int32_t hops) {
  if (!IsShort(bound, hops)) return kPriceMax * bound;
  const double filling = 2 * std::sqrt(hops * bound * kHandOverSeconds) + 2 * kHandOverSeconds;
  return std::max(kShortPriceMax * bound, bound + filling);
}

// Finds the number of rounds that is fastest.
class Scheduler {
 public:
  // `list`: the pairs of the moves, of which Run() takes the vector. `schedule` is complete except
  // for parts and rounds; its hops are those of a single round.
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
        shares_(list_.pairs, links),
        levels_(Hops()) {}

  // nullopt when the schedule takes too many windows.
  std::optional<Timeline> Run() && {
    const HeavyPairs heavy = CountHeavyPairs(list_.pairs, links_.network(), budget_);
    if (budget_.SpentNow()) return std::nullopt;
    const Cost cost = Estimate(moves_.moves, links_, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    bound_ = std::max(cost.bottleneck_seconds, cost.fabric_seconds);
    good_ = SlowestGood(bound_, schedule_.hops);
    TryRounds(heavy);
    if (!best_) return std::nullopt;
    Timeline timeline;
    timeline.schedule = best_->schedule;
    timeline.predicted_seconds = best_->prediction.seconds;
    timeline.schedule_seconds = best_->prediction.schedule_seconds;
    timeline.is_good = IsGood();
    timeline.is_dear =
        !IsShort(bound_, schedule_.hops) && timeline.predicted_seconds > bound_ * kDearest;
    SetRounds(best_->round_of);
    CutOff(best_->pieces, moves_.moves);
    if (budget_.SpentNow()) return std::nullopt;
    SetHops(best_->hop_of);
    timeline.moves = std::move(moves_.moves);
    moves_.moves = std::vector<Move>();
    timeline.messages = best_->messages;
    list_ = {};  // before more memory is taken
    Sort(best_->schedule, timeline.moves, budget_);
    if (budget_.SpentNow()) return std::nullopt;
    timeline.round_begin = RoundBegins(timeline.moves, best_->schedule.rounds, budget_);
    return timeline;
  }

 private:
  struct Found {
    std::vector<int32_t> round_of;  // of moves_, once it is the best
    std::vector<MovePiece> pieces;  // cut off some of them
    std::vector<int16_t> hop_of;    // likewise, then of pieces, where there are relays
    Schedule schedule;
    Prediction prediction;
    int64_t messages = 0;
  };

  // Tries one round and, where messages would then be small, more: as many as make them large, but
  // no more than the parts need that relays ask for. Fewer rounds follow until a schedule is good
  // and takes few more windows than the limit on their bytes asks for.
  void TryRounds(const HeavyPairs& heavy) {
    const int64_t least =
        std::max<int64_t>(1, CeilDiv(heavy.most_of_device, kMessagesPerWindowMax));
    int64_t rounds = std::max(least, RoundsForLargeMessages(heavy));
    if (least == 1) {
      Try(1);
      if (rounds == 1) return;
    }
    const int64_t last = std::max<int64_t>(2, least);
    rounds =
        std::clamp(RoundsFor(PartsForPipeline(PartsFor(rounds))), last, std::max(last, rounds));
    TryFrom(rounds, last);
    if (!best_ || best_->prediction.seconds <= bound_ * kDear) return;
    if (list_.pairs.size() > kPairsForMore) return;
    const int64_t found = best_->schedule.rounds;
    for (const int64_t near : {found * 3 / 4, found * 5 / 4}) {
      if (near >= last && near != found && !budget_.SpentNow()) Try(near);
    }
  }

  // Tries so many rounds, and fewer, until a schedule is good and hardly longer than it must be.
  void TryFrom(int64_t rounds, int64_t last) {
    while (!budget_.SpentNow()) {
      const Outcome outcome = Try(rounds);
      if (outcome.is_good && !(outcome.is_best && IsStretched())) return;
      if (rounds <= last) return;
      const int64_t half = std::max(last, rounds / 2);
      const int64_t fitting = outcome.is_good ? RoundsFor(best_->schedule.parts) : half;
      rounds = std::clamp(fitting, half, rounds - 1);
    }
  }

  // The fewest rounds in which windows need no more than so many parts.
  int64_t RoundsFor(int64_t parts) const { return CeilDiv(PartsFor(1), parts); }

  // The parts, `least` or more, that relays ask for, as if all moves were in one round.
  int64_t PartsForPipeline(int64_t least) {
    if (schedule_.hops == 1 || least > kWindowsMax) return least;
    for (Move& move : moves_.moves) move.round = 0;  // else as they were tried last
    SetHops(levels_);
    const int64_t most =
        std::max(least, std::min(kPipelinePartsMax, busiest_.bits / kPipelinePartBitsMin));
    const ScheduleCost cost(moves_.moves, list_, moves_.segments, schedule_,
                            static_cast<int32_t>(most), links_, budget_);
    if (budget_.SpentNow()) return least;
    return PartsChooser(cost, bound_, good_, budget_).Choose(least, most, schedule_.hops).parts;
  }

  // In one round, a pair sends a message in each of the windows that the limit on their bytes asks
  // for; in more rounds, it sends fewer and larger ones. There are no fewer of them where memory
  // asks for more windows. Looks at all heavy pairs, and at those across hosts alone, whose
  // messages cost most.
  int64_t RoundsForLargeMessages(const HeavyPairs& heavy) const {
    const std::vector<int32_t>& host_of = links_.network().host_of;
    int64_t bits = 0, crossing = 0, crossing_bits = 0;
    for (const PairWork& pair : list_.pairs) {
      if (pair.from == pair.to) continue;
      bits += pair.bits;
      if (host_of[pair.from] == host_of[pair.to]) continue;
      ++crossing;
      crossing_bits += pair.bits;
    }
    const int64_t windows = std::max(PartsFor(1), PartsFor(2) * 2);
    const bool larger = schedule_.hops == 1 && list_.pairs.size() <= kPairsForLarger;
    const int64_t of_message = larger ? kLargerMessageBits : kMessageBits;
    const auto rounds = [&](int64_t pairs, int64_t of_pairs) {
      return MulDiv(pairs, windows, std::max<int64_t>(1, of_pairs / of_message));
    };
    return std::min({heavy.most_of_device, CeilDiv(PartsFor(1), parts_min_),
                     std::max(rounds(heavy.count, bits), rounds(crossing, crossing_bits))});
  }

  // The fewest parts that keep windows over `rounds` rounds within their limit.
  int64_t PartsFor(int64_t rounds) const {
    return std::max(CeilDiv(CeilDiv(busiest_.bits, rounds), RoomFor(rounds)), parts_min_);
  }

  // The bits that a window has room for on the busiest device, on average. The rest of it is for
  // what rounding adds to parts, of which those of small segments are the least size of a part, and
  // for rounds that have more in flight than others. Short plans with relays fill half of it, since
  // they need parts more than they need few messages.
  int64_t RoomFor(int64_t rounds) const {
    if (schedule_.hops > 1 && IsShort(bound_, schedule_.hops)) return window_bits_ / 2;
    const int64_t of_move = schedule_.min_part_bits + 2 * schedule_.slack_bits + kRoundingBits;
    const int64_t room = window_bits_ - CeilDiv(busiest_.moves, rounds) * of_move;
    const int64_t spare = rounds == 1 ? 0 : kMoreInFlight;
    return std::max(window_bits_ / 2, room / (100 + spare) * 100);
  }

  bool IsGood() const { return best_ && IsGood(*best_); }
  bool IsGood(const Found& found) const { return found.prediction.schedule_seconds <= good_; }
  // Fewer messages are worth some time: in long plans half of them a thirtieth.
  bool IsBetter(const Found& found) const {
    if (!best_ || IsGood(found) != IsGood()) return !best_ || IsGood(found);
    const auto fewer = static_cast<double>(best_->messages - found.messages);
    const auto all = static_cast<double>(std::max<int64_t>(1, best_->messages + found.messages));
    const double worth =
        IsShort(bound_, schedule_.hops) ? kFewerMessagesWorthShort : kFewerMessagesWorth;
    return found.prediction.seconds <= best_->prediction.seconds * (1 + worth * fewer / all);
  }

  struct Outcome {
    bool is_good = false;
    bool is_best = false;
  };

  // Schedules over `rounds` rounds and keeps the result if it is the best so far.
  Outcome Try(int64_t rounds) {
    Found found{.round_of = {}, .pieces = {}, .hop_of = {}, .schedule = schedule_};
    const int64_t least = PartsFor(rounds);
    if (least > kWindowsMax) return {};
    found.schedule.parts = static_cast<int32_t>(least);
    SetHops(levels_);
    std::optional<PlacedMoves> placed =
        PlaceMoves(moves_, atoms_, found.schedule, list_, shares_, rounds, window_bits_, budget_);
    if (!placed || budget_.SpentNow()) return {};
    found.schedule.rounds = placed->rounds;
    found.pieces = std::move(placed->pieces);
    CutOff(found.pieces, moves_.moves);
    if (!found.pieces.empty()) AddToPairs(found.pieces, list_, budget_);
    const bool is_short_enough = ChooseParts(least, found);
    if (budget_.SpentNow()) return {};
    const Outcome outcome{.is_good = is_short_enough && IsGood(found),
                          .is_best = is_short_enough && IsBetter(found)};
    if (outcome.is_best) {
      best_.reset();  // before its like is in memory
      found.round_of = Rounds(moves_.moves.size() - found.pieces.size());
      found.hop_of = Hops();
    }
    JoinAgain(found.pieces, moves_.moves);
    if (!found.pieces.empty()) TakeFromPairs(found.pieces, list_, budget_);
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

  void SetHops(const std::vector<int16_t>& hop_of) {
    for (size_t m = 0; m < hop_of.size() && !budget_.Spent(); ++m) {
      moves_.moves[m].hop = hop_of[m];
    }
  }

  // The rounds of the first `count` moves.
  std::vector<int32_t> Rounds(size_t count) const {
    std::vector<int32_t> rounds;
    Reserve(rounds, count);
    for (size_t m = 0; m < count && !budget_.Spent(); ++m) {
      rounds.push_back(moves_.moves[m].round);
    }
    return rounds;
  }

  // The hops of all moves; none where there are no relays.
  std::vector<int16_t> Hops() const {
    std::vector<int16_t> hops;
    if (schedule_.hops == 1) return hops;
    Reserve(hops, moves_.moves.size());
    for (const Move& move : moves_.moves) {
      if (budget_.Spent()) break;
      hops.push_back(static_cast<int16_t>(move.hop));
    }
    return hops;
  }

  // The most parts that are tried: without relays the fewest alone. Where that is one part, every
  // pair sends in all turns, and the cost needs no list of those that do not.
  int64_t MostParts(int64_t least, const Schedule& schedule) const {
    if (schedule.hops == 1 && least == 1) return 1;
    return std::max(
        least, std::min(kPipelinePartsMax, busiest_.bits / schedule.rounds / kPipelinePartBitsMin));
  }

  // Completes a schedule whose moves and pairs have their rounds: lowers their hops, and chooses
  // the parts, `least` or more. Returns whether it takes few enough windows.
  bool ChooseParts(int64_t least, Found& found) {
    Schedule& schedule = found.schedule;
    if (schedule.hops > 1 && schedule.rounds > 1) {
      schedule.hops = SetEarliestHops(moves_.segments.size(), moves_.moves, budget_);
    }
    if (budget_.SpentNow()) return false;
    {  // frees the cost before messages are counted
      const int64_t most = MostParts(least, schedule);
      const ScheduleCost cost(moves_.moves, list_, moves_.segments, schedule,
                              static_cast<int32_t>(most), links_, budget_);
      if (budget_.SpentNow()) return false;
      const auto choice =
          PartsChooser(cost, bound_, good_, budget_).Choose(least, most, schedule.hops);
      schedule.parts = static_cast<int32_t>(choice.parts);
      if (!moves_.moves.empty()) found.prediction = choice.prediction;
    }
    if (budget_.SpentNow()) return false;
    found.messages = CountMessages(list_, moves_.moves, moves_.segments, schedule, atoms_, budget_);
    return (int64_t{schedule.parts} + schedule.hops - 1) * schedule.rounds <= kWindowsMax;
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
  const std::vector<int16_t> levels_;  // the hops of moves_ in a single round
  double bound_ = 0;                   // seconds of the busiest link
  double good_ = 0;                    // seconds of the slowest good schedule
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
