// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/scheduler.h"

#include <algorithm>

#include "base/int_math.h"
#include "planner/schedule/earliest_hops.h"
#include "planner/schedule/messages.h"
#include "planner/schedule/parts_chooser.h"
#include "planner/schedule/placement.h"
#include "planner/values/block_sort.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// A schedule of this many times the parts that it needs is worth a comparison with fewer rounds.
constexpr double kStretchedMin = 1.25;
// With more pairs of devices than this one number of rounds takes seconds to try.
constexpr size_t kPairsForMore = size_t{1} << 20;

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

std::optional<Timeline> Scheduler::Run(const HeavyPairs& heavy) && {
  TryRounds(heavy);
  if (!best_) return std::nullopt;
  Timeline timeline;
  timeline.schedule = best_->schedule;
  timeline.predicted_seconds = best_->prediction.seconds;
  timeline.schedule_seconds = best_->prediction.schedule_seconds;
  timeline.is_good = IsGood();
  timeline.is_dear = limits_.IsDearest(best_->prediction);
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

// Tries one round and, where messages would then be small, more: as many as make them large, but
// no more than the parts need that relays ask for. Fewer rounds follow until a schedule is good
// and takes few more windows than the limit on their bytes asks for.
void Scheduler::TryRounds(const HeavyPairs& heavy) {
  const int64_t least = std::max<int64_t>(1, CeilDiv(heavy.most_of_device, kMessagesPerWindowMax));
  int64_t rounds =
      std::max(least, parts_.RoundsForLargeMessages(list_.pairs, heavy, links_.network()));
  if (least == 1) {
    Try(1);
    if (rounds == 1) return;
  }
  const int64_t last = std::max<int64_t>(2, least);
  rounds = std::clamp(parts_.RoundsFor(PartsForPipeline(parts_.PartsFor(rounds))), last,
                      std::max(last, rounds));
  TryFrom(rounds, last);
  if (!best_ || !limits_.IsDear(best_->prediction)) return;
  if (list_.pairs.size() > kPairsForMore) return;
  const int64_t found = best_->schedule.rounds;
  for (const int64_t near : {found * 3 / 4, found * 5 / 4}) {
    if (near >= last && near != found && !budget_.SpentNow()) Try(near);
  }
}

// Tries so many rounds, and fewer, until a schedule is good and hardly longer than it must be.
void Scheduler::TryFrom(int64_t rounds, int64_t last) {
  while (!budget_.SpentNow()) {
    const Outcome outcome = Try(rounds);
    if (outcome.is_good && !(outcome.is_best && IsStretched())) return;
    if (rounds <= last) return;
    const int64_t half = std::max(last, rounds / 2);
    const int64_t fitting = outcome.is_good ? parts_.RoundsFor(best_->schedule.parts) : half;
    rounds = std::clamp(fitting, half, rounds - 1);
  }
}

// The parts, `least` or more, that relays ask for, as if all moves were in one round.
int64_t Scheduler::PartsForPipeline(int64_t least) {
  if (schedule_.hops == 1 || least > kWindowsMax) return least;
  for (Move& move : moves_.moves) move.round = 0;  // else as they were tried last
  SetHops(levels_);
  const int64_t most = parts_.MostParts(least, schedule_);
  const ScheduleCost cost(moves_.moves, list_, moves_.segments, schedule_,
                          static_cast<int32_t>(most), links_, budget_);
  if (budget_.SpentNow()) return least;
  return PartsChooser(cost, limits_, budget_).Choose(least, most, schedule_.hops).parts;
}

// Fewer messages are worth some time: in long plans half of them a thirtieth.
bool Scheduler::IsBetter(const Found& found) const {
  if (!best_ || IsGood(found) != IsGood()) return !best_ || IsGood(found);
  const auto fewer = static_cast<double>(best_->messages - found.messages);
  const auto all = static_cast<double>(std::max<int64_t>(1, best_->messages + found.messages));
  const double worth = limits_.fewer_messages_worth();
  return found.prediction.seconds <= best_->prediction.seconds * (1 + worth * fewer / all);
}

// Schedules over `rounds` rounds and keeps the result if it is the best so far.
Scheduler::Outcome Scheduler::Try(int64_t rounds) {
  Found found{.round_of = {}, .pieces = {}, .hop_of = {}, .schedule = schedule_};
  const int64_t least = parts_.PartsFor(rounds);
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
bool Scheduler::IsStretched() const {
  const Schedule& schedule = best_->schedule;
  return schedule.parts > parts_.PartsFor(schedule.rounds) * kStretchedMin;
}

void Scheduler::SetRounds(const std::vector<int32_t>& round_of) {
  for (size_t m = 0; m < round_of.size() && !budget_.Spent(); ++m) {
    moves_.moves[m].round = round_of[m];
  }
}

void Scheduler::SetHops(const std::vector<int16_t>& hop_of) {
  for (size_t m = 0; m < hop_of.size() && !budget_.Spent(); ++m) {
    moves_.moves[m].hop = hop_of[m];
  }
}

// The rounds of the first `count` moves.
std::vector<int32_t> Scheduler::Rounds(size_t count) const {
  std::vector<int32_t> rounds;
  Reserve(rounds, count);
  for (size_t m = 0; m < count && !budget_.Spent(); ++m) {
    rounds.push_back(moves_.moves[m].round);
  }
  return rounds;
}

// The hops of all moves; none where there are no relays.
std::vector<int16_t> Scheduler::Hops() const {
  std::vector<int16_t> hops;
  if (schedule_.hops == 1) return hops;
  Reserve(hops, moves_.moves.size());
  for (const Move& move : moves_.moves) {
    if (budget_.Spent()) break;
    hops.push_back(static_cast<int16_t>(move.hop));
  }
  return hops;
}

// Completes a schedule whose moves and pairs have their rounds: lowers their hops, and chooses
// the parts, `least` or more. Returns whether it takes few enough windows.
bool Scheduler::ChooseParts(int64_t least, Found& found) {
  Schedule& schedule = found.schedule;
  if (schedule.hops > 1 && schedule.rounds > 1) {
    schedule.hops = SetEarliestHops(moves_.segments.size(), moves_.moves, budget_);
  }
  if (budget_.SpentNow()) return false;
  {  // frees the cost before messages are counted
    const int64_t most = parts_.MostParts(least, schedule);
    const ScheduleCost cost(moves_.moves, list_, moves_.segments, schedule,
                            static_cast<int32_t>(most), links_, budget_);
    if (budget_.SpentNow()) return false;
    const auto choice = PartsChooser(cost, limits_, budget_).Choose(least, most, schedule.hops);
    schedule.parts = static_cast<int32_t>(choice.parts);
    if (!moves_.moves.empty()) found.prediction = choice.prediction;
  }
  if (budget_.SpentNow()) return false;
  found.messages = CountMessages(list_, moves_.moves, moves_.segments, schedule, atoms_, budget_);
  return (int64_t{schedule.parts} + schedule.hops - 1) * schedule.rounds <= kWindowsMax;
}

}  // namespace remesh::planner
