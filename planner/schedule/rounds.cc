// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/rounds.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {

namespace {

// How far a walk in an order asks ahead for what lies far apart in memory.
constexpr size_t kAhead = 32;

// The moves by sender, then by receiver: a counting sort by receiver, then one by sender. Moves are
// read in their own order only, since in another each would wait for memory.
std::vector<int32_t> OrderOf(const std::vector<Move>& moves, Budget& budget) {
  std::vector<int32_t> next_of_sender, next_of_receiver;
  const auto count = [](int32_t device, std::vector<int32_t>& next) {
    const auto at = static_cast<size_t>(device) + 1;
    if (at >= next.size()) next.resize(at + 1, 0);
    ++next[at];
  };
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
    count(move.from_device, next_of_sender);
    count(move.to_device, next_of_receiver);
  }
  std::partial_sum(next_of_sender.begin(), next_of_sender.end(), next_of_sender.begin());
  std::partial_sum(next_of_receiver.begin(), next_of_receiver.end(), next_of_receiver.begin());
  struct Sent {
    int32_t move;
    int32_t sender;
  };
  std::vector<Sent> by_receiver;
  Resize(by_receiver, moves.size(), budget);
  for (size_t m = 0; m < moves.size(); ++m) {
    if (budget.Spent()) return {};
    by_receiver[next_of_receiver[moves[m].to_device]++] = {static_cast<int32_t>(m),
                                                           moves[m].from_device};
  }
  std::vector<int32_t> order;
  Resize(order, moves.size(), budget);
  for (const Sent& sent : by_receiver) {
    if (budget.Spent()) return {};
    order[next_of_sender[sent.sender]++] = sent.move;
  }
  return order;
}

}  // namespace

PairList CollectPairs(const std::vector<Move>& moves, Budget& budget) {
  int32_t devices = 0;
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
    devices = std::max({devices, move.from_device + 1, move.to_device + 1});
  }
  PairList list;
  list.order = OrderOf(moves, budget);
  if (budget.SpentNow()) return list;
  const auto most = std::min<uint64_t>(moves.size(), static_cast<uint64_t>(devices) * devices);
  Reserve(list.pairs, most);
  for (size_t i = 0; i < list.order.size(); ++i) {
    if (budget.Spent()) return list;
    if (i + kAhead < list.order.size()) __builtin_prefetch(&moves[list.order[i + kAhead]].lo);
    const Move& move = moves[list.order[i]];
    if (i == 0 || move.from_device != list.pairs.back().from ||
        move.to_device != list.pairs.back().to) {
      list.pairs.push_back({move.from_device, move.to_device, 0, static_cast<int32_t>(i), 0});
    }
    list.pairs.back().bits += move.hi - move.lo;
    ++list.pairs.back().count;
  }
  StableSort(
      list.pairs, [](const PairWork& a, const PairWork& b) { return a.bits > b.bits; }, budget);
  return list;
}

namespace {

// The size of the smallest heavy pair, among pairs inside hosts or among those across. Pairs come
// largest first.
int64_t HeavyFrom(const std::vector<PairWork>& pairs, const Network& network, bool inside,
                  Budget& budget) {
  const auto counts = [&](const PairWork& pair) {
    return pair.from != pair.to &&
           (network.host_of[pair.from] == network.host_of[pair.to]) == inside;
  };
  int64_t total = 0;
  for (const PairWork& pair : pairs) {
    if (budget.Spent()) return 0;
    total += counts(pair) ? pair.bits : 0;
  }
  int64_t left = total;
  for (const PairWork& pair : pairs) {
    if (budget.Spent() || !counts(pair)) continue;
    left -= pair.bits;
    if (left <= total / 100) return pair.bits;
  }
  return 0;
}

}  // namespace

HeavyPairs CountHeavyPairs(const std::vector<PairWork>& pairs, const Network& network,
                           Budget& budget) {
  const int64_t heavy_from[2] = {HeavyFrom(pairs, network, false, budget),
                                 HeavyFrom(pairs, network, true, budget)};
  std::vector<int64_t> sends(network.device_count(), 0);
  std::vector<int64_t> receives(network.device_count(), 0);
  HeavyPairs heavy;
  for (const PairWork& pair : pairs) {
    if (budget.Spent()) return heavy;
    const bool inside = network.host_of[pair.from] == network.host_of[pair.to];
    if (pair.from == pair.to || pair.bits < heavy_from[inside]) continue;
    ++heavy.count;
    heavy.most_of_device =
        std::max({heavy.most_of_device, ++sends[pair.from], ++receives[pair.to]});
  }
  return heavy;
}

RoundPacker::RoundPacker(const Links& links, int64_t bits_max, int64_t messages_max, Budget& budget)
    : links_(links),
      network_(links.network()),
      bits_max_(bits_max),
      messages_max_(messages_max),
      budget_(budget) {}

bool RoundPacker::Fits(const Round& round, int32_t from, int32_t to, int64_t bits) const {
  for (int32_t device : {from, to}) {
    if (round.bits[device] > 0 && round.bits[device] + bits > bits_max_) return false;
  }
  if (from == to) return true;
  return round.sends[from] < messages_max_ && round.receives[to] < messages_max_;
}

void RoundPacker::AddRounds(int64_t count) {
  while (static_cast<int64_t>(rounds_.size()) < count && !budget_.Spent()) {
    rounds_.push_back({std::vector<int64_t>(network_.device_count(), 0),
                       std::vector<int64_t>(links_.count(), 0),
                       std::vector<int32_t>(network_.device_count(), 0),
                       std::vector<int32_t>(network_.device_count(), 0)});
  }
}

int32_t RoundPacker::LeastLoaded(int32_t from, int32_t to, const Load& load, int64_t preferred,
                                 absl::Span<const int32_t> taken) const {
  const int32_t out = links_.Sender(from, to);
  const int32_t in = links_.Receiver(from, to);
  int32_t best = -1;
  int64_t least = 0;
  for (int64_t k = 0; k < preferred && !budget_.Spent(); ++k) {
    const int32_t r = static_cast<int32_t>((int64_t{from} + to + k) % preferred);
    if (!Fits(rounds_[r], from, to, load.bits)) continue;
    const int64_t busy = std::max(rounds_[r].busy[out] + load.out, rounds_[r].busy[in] + load.in);
    if (best >= 0 && busy >= least) continue;
    if (std::find(taken.begin(), taken.end(), r) != taken.end()) continue;
    best = r;
    least = busy;
  }
  return best;
}

void RoundPacker::Put(int32_t r, int32_t from, int32_t to, const Load& load) {
  Round& round = rounds_[r];
  round.bits[from] += load.bits;
  if (from == to) return;
  round.bits[to] += load.bits;
  round.busy[links_.Sender(from, to)] += load.out;
  round.busy[links_.Receiver(from, to)] += load.in;
  ++round.sends[from];
  ++round.receives[to];
}

int32_t RoundPacker::Place(int32_t from, int32_t to, const Load& load, int64_t preferred,
                           absl::Span<const int32_t> taken) {
  AddRounds(preferred);
  if (budget_.Spent()) return 0;
  int32_t best = LeastLoaded(from, to, load, preferred, taken);
  for (int32_t r = static_cast<int32_t>(preferred); best < 0; ++r) {
    AddRounds(r + 1);
    if (budget_.Spent()) return 0;
    if (!Fits(rounds_[r], from, to, load.bits)) continue;
    if (std::find(taken.begin(), taken.end(), r) == taken.end()) best = r;
  }
  Put(best, from, to, load);
  return best;
}

int32_t RoundPacker::PlaceIn(int32_t round, int32_t from, int32_t to, const Load& load,
                             int64_t preferred, absl::Span<const int32_t> taken) {
  AddRounds(preferred);
  if (budget_.Spent()) return 0;
  const bool free = std::find(taken.begin(), taken.end(), round) == taken.end();
  if (!free || !Fits(rounds_[round], from, to, load.bits))
    return Place(from, to, load, preferred, taken);
  Put(round, from, to, load);
  return round;
}

}  // namespace remesh::planner
