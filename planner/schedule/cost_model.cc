// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/cost_model.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "planner/values/resize.h"

namespace remesh::planner {

Cost Estimate(const std::vector<Move>& moves, const Links& links, Budget& budget) {
  std::vector<int64_t> bits(links.count(), 0);
  for (const Move& move : moves) {
    if (budget.Spent()) return {};
    links.ForEachOnPath(move.from_device, move.to_device,
                        [&](int32_t link) { bits[link] += move.hi - move.lo; });
  }
  Cost cost;
  for (int32_t i = 0; i < links.count(); ++i) {
    const double seconds = links.SecondsFor(i, static_cast<double>(bits[i]));
    if (links.IsFabric(i)) {
      cost.fabric_seconds = std::max(cost.fabric_seconds, seconds);
    } else if (seconds > cost.bottleneck_seconds) {
      cost.bottleneck_seconds = seconds;
      cost.bottleneck_bytes = (bits[i] + 7) / 8;
      cost.bottleneck = links.NameOf(i);
    }
  }
  return cost;
}

double WindowSeconds(double busiest_seconds) {
  return std::max(busiest_seconds, (busiest_seconds + kHandOverSeconds) / 2);
}

// Adds hop after hop and keeps how long the busiest resource takes for all of them.
class ScheduleCost::RunningMax {
 public:
  explicit RunningMax(const std::vector<Resource>& resources)
      : resources_(resources), sums_(resources.size()) {}

  // Begins a window of hops in `parts` parts each.
  void Clear(int32_t parts) {
    for (const int32_t i : used_) sums_[i] = {};
    used_.clear();
    parts_ = parts;
    busiest_ = {};
  }

  // Adds a hop, and of its messages those that `counts`.
  template <typename Counts>
  void Add(const Hop& hop, const Counts& counts) {
    for (const Load& load : hop.loads) {
      Sum& sum = Use(load.resource);
      sum.bits += load.bits;
      sum.messages += load.messages;
    }
    for (const Message& message : hop.messages) {
      if (!counts(message)) continue;
      const double share = std::min(1.0, static_cast<double>(message.turns) / parts_);
      for (const int32_t resource : message.resources) {
        if (resource < 0) break;
        sums_[resource].messages += share;
      }
    }
    for (const Load& load : hop.loads) Raise(load.resource);
  }

  // Adds `count` windows that carry everything added so far.
  void AddWindows(int32_t count, Prediction& sum) const {
    sum.seconds += count * WindowSeconds(busiest_.seconds);
    sum.schedule_seconds += count * WindowSeconds(busiest_.schedule_seconds);
  }

  const Prediction& busiest() const { return busiest_; }

 private:
  // What a resource has to carry so far.
  struct Sum {
    int64_t bits = 0;
    double messages = 0;
  };

  Sum& Use(int32_t i) {
    if (sums_[i].bits == 0 && sums_[i].messages == 0) used_.push_back(i);
    return sums_[i];
  }

  void Raise(int32_t i) {
    const Sum& sum = sums_[i];
    const double bytes = resources_[i].seconds_per_bit * static_cast<double>(sum.bits) / parts_;
    const double all = bytes + resources_[i].seconds_per_message * sum.messages;
    busiest_.schedule_seconds = std::max(busiest_.schedule_seconds, bytes);
    busiest_.seconds = std::max(busiest_.seconds, all);
  }

  const std::vector<Resource>& resources_;
  std::vector<Sum> sums_;  // by resource
  std::vector<int32_t> used_;
  int32_t parts_ = 1;
  Prediction busiest_;
};

// Sorts the moves of all pairs into rounds and hops.
class ScheduleCost::Builder {
 public:
  Builder(const std::vector<Move>& moves, const std::vector<Segment>& segments,
          const Schedule& schedule, int32_t parts_max, const Links& links, ScheduleCost& cost)
      : moves_(moves),
        segments_(segments),
        min_part_bits_(schedule.min_part_bits),
        parts_max_(parts_max),
        links_(links),
        cost_(cost),
        hops_(schedule.hops) {
    const size_t cells = cost.rounds_.size() * schedule.hops * cost.resources_.size();
    if (cells <= kCellsMin + kCellsOfMove * moves.size()) at_.assign(cells, -1);
  }

  // Adds all pairs of a schedule of one window: each sends all its bits in one message.
  void AddWholePairs(const std::vector<PairWork>& pairs) {
    for (const PairWork& pair : pairs) {
      if (cost_.budget_.Spent()) return;
      if (pair.from != pair.to) AddBits(pair.from, pair.to, pair.bits, true, PlaceOf(0, 0));
    }
  }

  // Adds the moves of all pairs.
  void AddPairs(const PairList& list) {
    const PairsAhead ahead(list, moves_, segments_);
    for (size_t i = 0; i < list.pairs.size(); ++i) {
      if (cost_.budget_.Spent()) return;
      ahead.Ask(i);
      const PairWork& pair = list.pairs[i];
      if (pair.from == pair.to) continue;
      Add(absl::MakeConstSpan(list.order).subspan(pair.first, pair.count));
    }
  }

  // Adds up the loads of each resource in each hop, where that is not done yet.
  void Merge() {
    if (!at_.empty()) return;
    std::vector<int32_t> at(cost_.resources_.size(), -1);
    for (Round& round : cost_.rounds_) {
      for (Hop& hop : round) {
        if (cost_.budget_.Spent()) return;
        MergeLoads(hop.loads, at);
      }
    }
  }

 private:
  // Loads are found in a table where it has no more cells than this.
  static constexpr size_t kCellsMin = size_t{1} << 16;
  static constexpr size_t kCellsOfMove = 4;

  // Adds the moves of one pair.
  void Add(absl::Span<const int32_t> moves) {
    const auto is_before = [&](int32_t a, int32_t b) {
      return std::tie(moves_[a].round, moves_[a].hop) < std::tie(moves_[b].round, moves_[b].hop);
    };
    if (!std::is_sorted(moves.begin(), moves.end(), is_before)) {
      sorted_.assign(moves.begin(), moves.end());
      std::sort(sorted_.begin(), sorted_.end(), is_before);
      moves = sorted_;
    }
    for (size_t begin = 0, end = 0; begin < moves.size(); begin = end) {
      const int32_t round = moves_[moves[begin]].round;
      while (end < moves.size() && moves_[moves[end]].round == round) ++end;
      AddInRound(moves.subspan(begin, end - begin));
    }
  }

  // Adds the moves of one pair in one round, by rising hop.
  void AddInRound(absl::Span<const int32_t> moves) {
    const Move& any = moves_[moves[0]];
    int64_t turns = parts_max_ == 1 ? 1 : 0;
    for (const int32_t m : moves) {
      if (turns >= parts_max_) break;
      const int64_t size = segments_[moves_[m].segment].size();
      turns = std::min<int64_t>(parts_max_, turns + (size + min_part_bits_ - 1) / min_part_bits_);
    }
    const bool plain = moves_[moves.back()].hop == any.hop && turns == parts_max_;
    Message message{.turns = static_cast<int32_t>(turns)};
    for (size_t begin = 0, end = 0; begin < moves.size(); begin = end) {
      const int32_t hop_index = moves_[moves[begin]].hop;
      int64_t bits = 0;
      for (; end < moves.size() && moves_[moves[end]].hop == hop_index; ++end) {
        bits += moves_[moves[end]].hi - moves_[moves[end]].lo;
      }
      message.next = end < moves.size() ? moves_[moves[end]].hop : -1;
      const Place place = PlaceOf(any.round, hop_index);
      AddBits(any.from_device, any.to_device, bits, plain, place);
      if (!plain) AddMessage(any.from_device, any.to_device, message, place);
      message.prior = hop_index;
    }
  }

  // A hop of a round, and its cells in at_ (null without a table).
  struct Place {
    Hop* hop = nullptr;
    int32_t* at = nullptr;
  };
  Place PlaceOf(int32_t round, int32_t hop) {
    Place place{.hop = &cost_.rounds_[round][hop]};
    const size_t number = static_cast<size_t>(round) * hops_ + hop;
    if (!at_.empty()) place.at = &at_[number * cost_.resources_.size()];
    return place;
  }

  // The load of a resource; without a table a new one, to be merged with the others.
  static Load& LoadAt(Place place, int32_t resource) {
    std::vector<Load>& loads = place.hop->loads;
    if (place.at != nullptr) {
      int32_t& at = place.at[resource];
      if (at >= 0) return loads[at];
      at = static_cast<int32_t>(loads.size());
    }
    return loads.emplace_back(Load{.resource = resource});
  }

  // Adds the bits of a plain message, or of another, and a plain message itself.
  void AddBits(int32_t from, int32_t to, int64_t bits, bool plain, Place place) {
    links_.ForEachOnPath(from, to, [&](int32_t link) {
      Load& load = LoadAt(place, link);
      load.bits += bits;
      load.messages += plain && Charges(link) ? 1 : 0;
    });
    if (!plain) return;
    ForEachHost(from, to, [&](int32_t host) {
      if (Charges(host)) ++LoadAt(place, host).messages;
    });
  }

  // Adds a message that is not plain.
  void AddMessage(int32_t from, int32_t to, Message message, Place place) {
    size_t count = 0;
    const auto add = [&](int32_t resource) {
      if (!Charges(resource)) return;
      message.resources[count++] = resource;
      LoadAt(place, resource);
    };
    add(links_.Sender(from, to));
    add(links_.Receiver(from, to));
    ForEachHost(from, to, add);
    if (count > 0) place.hop->messages.push_back(message);
  }

  // Whether a message costs time beside its bytes there.
  bool Charges(int32_t resource) const {
    return cost_.resources_[resource].seconds_per_message != 0;
  }

  // Calls visit(resource) for both hosts of a message between hosts.
  template <typename Visit>
  void ForEachHost(int32_t from, int32_t to, const Visit& visit) const {
    const int32_t hosts[] = {links_.network().host_of[from], links_.network().host_of[to]};
    if (hosts[0] == hosts[1]) return;
    for (const int32_t host : hosts) visit(links_.count() + host);
  }

  // `at`: -1 for every resource, before and after.
  static void MergeLoads(std::vector<Load>& loads, std::vector<int32_t>& at) {
    size_t count = 0;
    for (const Load& load : loads) {
      int32_t& index = at[load.resource];
      if (index < 0) {
        index = static_cast<int32_t>(count);
        loads[count++] = load;
        continue;
      }
      loads[index].bits += load.bits;
      loads[index].messages += load.messages;
    }
    loads.resize(count);
    for (const Load& load : loads) at[load.resource] = -1;
  }

  const std::vector<Move>& moves_;
  const std::vector<Segment>& segments_;
  const int64_t min_part_bits_;
  const int32_t parts_max_;
  const Links& links_;
  ScheduleCost& cost_;
  const size_t hops_;
  // Cells of resources, hop after hop and round after round: where their loads are, -1: nowhere.
  // Empty where that would be many cells for few moves.
  std::vector<int32_t> at_;
  std::vector<int32_t> sorted_;
};

ScheduleCost::ScheduleCost(const std::vector<Move>& moves, const PairList& list,
                           const std::vector<Segment>& segments, const Schedule& schedule,
                           int32_t parts_max, const Links& links, Budget& budget)
    : budget_(budget), rounds_(schedule.rounds) {
  SetResources(links);
  for (Round& round : rounds_) {
    if (budget.Spent()) return;
    round.resize(schedule.hops);
  }
  Builder builder(moves, segments, schedule, parts_max, links, *this);
  const bool is_one_step = rounds_.size() == 1 && schedule.hops == 1;
  if (is_one_step && parts_max == 1) {
    builder.AddWholePairs(list.pairs);
  } else {
    // A list of millions that grows is copied, and for a while in memory twice.
    if (is_one_step) Reserve(rounds_[0][0].messages, list.pairs.size());
    builder.AddPairs(list);
  }
  builder.Merge();
  if (schedule.hops > 1) SumLoads();
}

void ScheduleCost::SumLoads() {
  sums_.resize(resources_.size());
  for (const Round& round : rounds_) {
    for (const Hop& hop : round) {
      if (budget_.Spent()) return;
      for (const Load& load : hop.loads) {
        sums_[load.resource].bits += load.bits;
        sums_[load.resource].messages += load.messages;
      }
    }
  }
}

double ScheduleCost::LeastSeconds(int32_t parts) const {
  REMESH_CHECK(sums_.size() == resources_.size());
  double most = 0;
  for (size_t i = 0; i < resources_.size(); ++i) {
    const double messages = static_cast<double>(sums_[i].messages) * parts;
    const double seconds = resources_[i].seconds_per_bit * static_cast<double>(sums_[i].bits) +
                           resources_[i].seconds_per_message * messages;
    most = std::max(most, seconds);
  }
  return most;
}

void ScheduleCost::SetResources(const Links& links) {
  const Network& network = links.network();
  resources_.reserve(links.count() + network.hosts.size());
  for (int32_t i = 0; i < links.count(); ++i) {
    Resource resource{.seconds_per_bit = links.SecondsFor(i, 1)};
    const int32_t index = links.all()[i].index;
    if (links.IsFabric(i)) {
      resource.seconds_per_message = network.hosts[network.host_of[index]].fabric_message_seconds;
    } else if (links.all()[i].kind == Link::Kind::kNic) {
      resource.seconds_per_message = network.hosts[network.nics[index].host].nic_message_seconds;
    }
    resources_.push_back(resource);
  }
  for (const Network::HostNode& host : network.hosts) {
    resources_.push_back({.seconds_per_message = host.operation_seconds});
  }
}

double ScheduleCost::SteadySeconds() const {
  double sum = 0;
  RunningMax busiest(resources_);
  for (const Round& round : rounds_) {
    busiest.Clear(1);
    for (const Hop& hop : round) {
      if (budget_.Spent()) return sum;
      busiest.Add(hop, [](const Message&) { return false; });
    }
    sum += busiest.busiest().schedule_seconds;
  }
  return sum;
}

Prediction ScheduleCost::Predict(int32_t parts) const {
  Prediction sum;
  RunningMax busiest(resources_);
  for (const Round& round : rounds_) AddRound(round, parts, busiest, sum);
  return sum;
}

void ScheduleCost::AddRound(const Round& round, int32_t parts, RunningMax& busiest,
                            Prediction& sum) const {
  const int32_t hops = static_cast<int32_t>(round.size());
  const int32_t ramp = std::min(parts, hops) - 1;
  busiest.Clear(parts);
  for (int32_t l = 0; l < hops && (l < ramp || parts >= hops); ++l) {
    if (budget_.Spent()) return;
    busiest.Add(round[l], [](const Message& message) { return message.prior < 0; });
    busiest.AddWindows(l < ramp ? 1 : parts - hops + 1, sum);
  }
  busiest.Clear(parts);
  for (int32_t l = hops - 1; l > hops - 1 - ramp; --l) {
    if (budget_.Spent()) return;
    busiest.Add(round[l], [](const Message& message) { return message.next < 0; });
    busiest.AddWindows(1, sum);
  }
  if (parts >= hops) return;
  for (int32_t first = 0; first + parts <= hops; ++first) {
    busiest.Clear(parts);
    for (int32_t l = first; l < first + parts; ++l) {
      if (budget_.Spent()) return;
      busiest.Add(round[l], [&](const Message& message) { return message.prior < first; });
    }
    busiest.AddWindows(1, sum);
  }
}

}  // namespace remesh::planner
