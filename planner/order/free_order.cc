// SPDX-License-Identifier: Apache-2.0
#include "planner/order/free_order.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "planner/atoms/atoms.h"
#include "planner/atoms/demand_classes.h"
#include "planner/network/network.h"
#include "planner/network/units.h"
#include "planner/order/assignment.h"
#include "planner/order/target_slots.h"
#include "planner/routing/lower_bound.h"

namespace remesh::planner {
namespace {

constexpr size_t kEdgesMax = size_t{1} << 20;
constexpr size_t kHostsMax = 256;    // most hosts of one size that change places as a whole
constexpr size_t kDevicesMax = 256;  // most devices of a host that change places
constexpr int64_t kTrialsMax = int64_t{1} << 24;
constexpr size_t kSwapWorkMax = size_t{1} << 16;

// The weight of a bit between hosts relative to one inside a host. Finite, so that a few elements
// of uneven shards that cross hosts do not decide the places of all others.
constexpr __int128 kCrossingWeight = 64;

thread_local int64_t orders_chosen = 0;

using Assignment = std::vector<int32_t>;  // slot -> host
using Order = std::vector<int32_t>;       // slot -> device

class OrderChooser {
 public:
  OrderChooser(const Atoms& atoms, const Network& network, TargetSlots slots, Budget& budget)
      : atoms_(atoms),
        network_(network),
        units_(network),
        budget_(budget),
        slots_(std::move(slots)),
        needs_(FindSlotNeeds(atoms, slots_)) {}

  const TargetSlots& slots() const { return slots_; }

  Order Run() const {
    std::vector<Assignment> assignments;
    if (std::optional<Assignment> apart = AssignSlots()) {
      assignments.push_back(*apart);
      Level(*apart);
      if (*apart != assignments.front()) assignments.push_back(*std::move(apart));
    }
    if (std::optional<Assignment> whole = AssignHosts()) assignments.push_back(*std::move(whole));
    assignments.push_back(GivenAssignment());
    std::vector<std::pair<Score, Order>> orders;
    for (const Assignment& assignment : assignments) {
      Order order = AssignDevices(assignment);
      const Score score = ScoreOf(order);
      orders.emplace_back(score, std::move(order));
    }
    std::pair<Score, Order> best = Best(std::move(orders));
    Improve(best.first, best.second);
    return std::move(best.second);
  }

 private:
  struct Score {
    Rational lower_bound;
    __int128 cost = 0;  // weighted bits between hosts, plus bits that devices receive
  };

  // Whether a is less than b by a thousandth at least. Shards are never quite even, and saving a
  // few elements on one host is not worth much more traffic everywhere else.
  static bool MuchLess(const Rational& a, const Rational& b) {
    return static_cast<__int128>(a.num) * b.den <
           static_cast<__int128>(b.num - b.num / 1024) * a.den;
  }

  // The cheapest of the orders with about the least lower bound.
  static std::pair<Score, Order> Best(std::vector<std::pair<Score, Order>> orders) {
    Rational least = orders.front().first.lower_bound;
    for (const auto& [score, order] : orders) least = std::min(least, score.lower_bound);
    size_t best = orders.size();
    for (size_t i = 0; i < orders.size(); ++i) {
      if (MuchLess(least, orders[i].first.lower_bound)) continue;
      if (best == orders.size() || orders[i].first.cost < orders[best].first.cost) best = i;
    }
    return std::move(orders[best]);
  }

  Assignment GivenAssignment() const {
    Assignment assignment;
    for (int32_t device : slots_.given) assignment.push_back(slots_.host_of[device]);
    return assignment;
  }

  // Adds an edge for the bits that the slot saves at each device.
  void AddEdges(int32_t slot, std::vector<WeightedEdge>& edges) const {
    const size_t first = edges.size();
    const auto add = [&](int32_t device, __int128 weight) {
      const auto right = std::lower_bound(slots_.devices.begin(), slots_.devices.end(), device);
      edges.push_back({slot, static_cast<int32_t>(right - slots_.devices.begin()), weight});
    };
    for (const HeldShare& share : needs_->on_host[slot]) {
      for (int32_t device : slots_.devices_of[share.place]) {
        add(device, kCrossingWeight * share.bits);
      }
    }
    for (const HeldShare& share : needs_->on_device[slot]) add(share.place, share.bits);
    const auto begin = edges.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_sort(begin, edges.end(), [](const WeightedEdge& a, const WeightedEdge& b) {
      return a.right < b.right;
    });
    size_t kept = first;
    for (size_t i = first; i < edges.size(); ++i) {
      if (kept > first && edges[kept - 1].right == edges[i].right) {
        edges[kept - 1].weight += edges[i].weight;
      } else {
        edges[kept++] = edges[i];
      }
    }
    edges.resize(kept);
  }

  // Assigns slots to hosts one by one, by the least bytes into hosts and, with less weight, into
  // devices.
  std::optional<Assignment> AssignSlots() const {
    if (!needs_) return std::nullopt;
    std::vector<WeightedEdge> edges;
    for (int32_t slot = 0; slot < slots_.count(); ++slot) {
      if (budget_.Spent()) return std::nullopt;
      AddEdges(slot, edges);
      if (edges.size() > kEdgesMax) return std::nullopt;
    }
    const std::vector<int32_t> matching =
        MaxWeightMatching(slots_.count(), slots_.count(), edges, budget_);
    std::vector<bool> taken(slots_.count(), false);
    for (int32_t right : matching) {
      if (right >= 0) taken[right] = true;
    }
    Assignment assignment;
    size_t spare = 0;
    for (int32_t right : matching) {
      while (right < 0 && taken[spare]) ++spare;
      const size_t place = right < 0 ? spare++ : static_cast<size_t>(right);
      assignment.push_back(slots_.host_of[slots_.devices[place]]);
    }
    return assignment;
  }

  Rational Load(int64_t bits, int32_t host) const {
    return {bits, std::max<int64_t>(network_.hosts[slots_.hosts[host]].capacity(), 1)};
  }

  // Swaps slots of the busiest host with slots of others as long as that helps.
  void Level(Assignment& assignment) const {
    std::vector<int64_t> entering = needs_->host_base;
    for (size_t s = 0; s < assignment.size(); ++s) {
      entering[assignment[s]] += needs_->Entering(static_cast<int32_t>(s), assignment[s]);
    }
    for (int64_t trials = 0; trials < kTrialsMax;) {
      int32_t busiest = 0;
      for (int32_t h = 1; h < slots_.host_count(); ++h) {
        if (Load(entering[busiest], busiest) < Load(entering[h], h)) busiest = h;
      }
      if (!SwapOne(busiest, assignment, entering, trials)) return;
    }
  }

  // Makes the swap that leaves the least load on the two hosts, then the least total. False when no
  // swap leaves a load below that of `busiest`.
  bool SwapOne(int32_t busiest, Assignment& assignment, std::vector<int64_t>& entering,
               int64_t& trials) const {
    const Rational load_before = Load(entering[busiest], busiest);
    Rational best = load_before;
    int64_t best_total = 0;
    std::optional<std::pair<int32_t, int32_t>> swap;
    for (int32_t a = 0; a < slots_.count(); ++a) {
      if (budget_.Spent()) return false;
      if (assignment[a] != busiest) continue;
      const int64_t without_a = entering[busiest] - needs_->Entering(a, busiest);
      for (int32_t b = 0; b < slots_.count(); ++b) {
        const int32_t other = assignment[b];
        if (other == busiest) continue;
        ++trials;
        const int64_t here = without_a + needs_->Entering(b, busiest);
        const int64_t there =
            entering[other] - needs_->Entering(b, other) + needs_->Entering(a, other);
        const Rational load = std::max(Load(here, busiest), Load(there, other));
        const int64_t total = here + there - entering[busiest] - entering[other];
        if (!MuchLess(load, load_before) || best < load) continue;
        if (load == best && total >= best_total) continue;
        best = load;
        best_total = total;
        swap = {a, b};
      }
    }
    if (!swap) return false;
    const auto [a, b] = *swap;
    const int32_t other = assignment[b];
    entering[busiest] += needs_->Entering(b, busiest) - needs_->Entering(a, busiest);
    entering[other] += needs_->Entering(a, other) - needs_->Entering(b, other);
    std::swap(assignment[a], assignment[b]);
    return true;
  }

  // Sets loads in 1024 steps up to the largest load: see MuchLess().
  static void SetLoads(const std::vector<Rational>& loads, std::vector<PairCost>& costs) {
    const Rational most = *std::max_element(loads.begin(), loads.end());
    for (size_t i = 0; most.num > 0 && i < loads.size(); ++i) {
      const __int128 part = static_cast<__int128>(loads[i].num) * most.den;
      const __int128 whole = static_cast<__int128>(most.num) * loads[i].den;
      costs[i].load = static_cast<int64_t>((part * 1024 + whole - 1) / whole);
    }
  }

  // Assigns the slots of each host as a whole, among hosts with equally many. Blocks are numbered
  // by their first slots, and so by structure, regardless of the names of hosts.
  std::optional<Assignment> AssignHosts() const {
    const Assignment given = GivenAssignment();
    const int32_t count = slots_.host_count();
    std::vector<int32_t> host_of_block, block_of_host(count, -1), block_of;
    for (int32_t host : given) {
      if (block_of_host[host] < 0) {
        block_of_host[host] = static_cast<int32_t>(host_of_block.size());
        host_of_block.push_back(host);
      }
      block_of.push_back(block_of_host[host]);
    }
    const auto entering = BlockNeeds(atoms_, slots_, block_of, count);
    if (!entering) return std::nullopt;
    std::map<size_t, std::vector<int32_t>> blocks_of_size;
    for (int32_t block = 0; block < count; ++block) {
      blocks_of_size[slots_.devices_of[host_of_block[block]].size()].push_back(block);
    }
    for (const auto& [size, blocks] : blocks_of_size) {
      if (budget_.SpentNow()) return std::nullopt;
      if (blocks.size() <= kHostsMax) ExchangeHosts(blocks, *entering, host_of_block);
    }
    Assignment assignment;
    for (int32_t block : block_of) assignment.push_back(host_of_block[block]);
    return assignment;
  }

  void ExchangeHosts(const std::vector<int32_t>& blocks, const std::vector<int64_t>& entering,
                     std::vector<int32_t>& host_of_block) const {
    std::vector<int32_t> hosts;
    for (int32_t block : blocks) hosts.push_back(host_of_block[block]);
    std::sort(hosts.begin(), hosts.end());
    std::vector<PairCost> costs;
    std::vector<Rational> loads;
    for (int32_t block : blocks) {
      for (int32_t host : hosts) {
        const int64_t bits = entering[block * slots_.hosts.size() + host];
        costs.push_back({0, bits});
        loads.push_back(Load(bits, host));
      }
    }
    SetLoads(loads, costs);
    const auto chosen = BottleneckAssignment(static_cast<int32_t>(blocks.size()), costs);
    for (size_t i = 0; i < blocks.size(); ++i) host_of_block[blocks[i]] = hosts[chosen[i]];
  }

  // Assigns the slots of each host to its devices.
  Order AssignDevices(const Assignment& assignment) const {
    std::vector<std::vector<int32_t>> slots_of(slots_.hosts.size());
    for (size_t s = 0; s < assignment.size(); ++s) {
      slots_of[assignment[s]].push_back(static_cast<int32_t>(s));
    }
    Order order(assignment.size());
    for (size_t h = 0; h < slots_of.size() && !budget_.SpentNow(); ++h) {
      AssignInHost(slots_of[h], slots_.devices_of[h], order);
    }
    return order;
  }

  void AssignInHost(std::vector<int32_t>& slots, const std::vector<int32_t>& devices,
                    Order& order) const {
    if (!needs_ || slots.size() > kDevicesMax) {
      std::sort(slots.begin(), slots.end(),
                [&](int32_t a, int32_t b) { return slots_.given[a] < slots_.given[b]; });
      for (size_t i = 0; i < slots.size(); ++i) order[slots[i]] = devices[i];
      return;
    }
    std::vector<PairCost> costs;
    std::vector<Rational> loads;
    for (int32_t slot : slots) {
      for (int32_t device : devices) {
        const int64_t bits = needs_->Received(slot, device) - needs_->device_base[device];
        costs.push_back({0, bits});
        loads.push_back({bits, 1});
      }
    }
    SetLoads(loads, costs);
    const auto chosen = BottleneckAssignment(static_cast<int32_t>(slots.size()), costs);
    for (size_t i = 0; i < slots.size(); ++i) order[slots[i]] = devices[chosen[i]];
  }

  // The demand classes of the atoms after `order` has changed which devices need them.
  DemandClasses DemandOf(const Order& order) const {
    Atoms reordered{.groups = atoms_.groups, .tapes = atoms_.tapes};
    std::vector<int32_t> group_of(atoms_.groups.size(), -1);
    for (Tape& tape : reordered.tapes) {
      int32_t& group = group_of[tape.needers];
      if (group < 0) {
        Group needers;
        for (int32_t device : atoms_.groups[tape.needers]) {
          needers.push_back(order[slots_.slot_given[device]]);
        }
        std::sort(needers.begin(), needers.end());
        group = static_cast<int32_t>(reordered.groups.size());
        reordered.groups.push_back(std::move(needers));
      }
      tape.needers = group;
    }
    return MakeDemandClasses(reordered, network_, budget_);
  }

  Score ScoreOf(const Order& order) const {
    const DemandClasses demand = DemandOf(order);
    Score score{.lower_bound = LowerBound(demand, units_, budget_).t};
    for (const DemandClass& one : demand.classes) {
      score.cost += kCrossingWeight * one.bits * static_cast<int64_t>(one.needers.size());
    }
    for (int32_t slot = 0; needs_ && slot < slots_.count(); ++slot) {
      score.cost += needs_->Received(slot, order[slot]);
    }
    return score;
  }

  // Makes any swap of two slots that improves the score, until there is none. Only where devices
  // are so few that all swaps can be tried. Unlike assignments it takes into account what hosts
  // send and what replicas share.
  void Improve(Score& best, Order& order) const {
    const size_t count = order.size();
    if (count * count * atoms_.tapes.size() > kSwapWorkMax) return;
    for (size_t tried = 0, a = 0, b = 1; count > 1 && tried < count * (count - 1) / 2; ++tried) {
      if (budget_.Spent()) return;
      std::swap(order[a], order[b]);
      const Score score = ScoreOf(order);
      const bool better = MuchLess(score.lower_bound, best.lower_bound) ||
                          (!(best.lower_bound < score.lower_bound) && score.cost < best.cost);
      if (better) {
        best = score;
        tried = 0;
      } else {
        std::swap(order[a], order[b]);
      }
      if (++b == count) b = ++a + 1;
      if (b >= count) a = 0, b = 1;
    }
  }

  const Atoms& atoms_;
  const Network& network_;
  const Units units_;
  Budget& budget_;
  const TargetSlots slots_;
  const std::optional<SlotNeeds> needs_;
};

}  // namespace

std::vector<int64_t> ChooseTargetOrder(const ReshardRequest& request, Budget& budget) {
  ++orders_chosen;
  const Network network = MakeNetwork(request);
  std::vector<int64_t> taker(network.device_count());
  std::iota(taker.begin(), taker.end(), int64_t{0});
  const auto atoms = MakeAtoms(request, network, budget);
  if (!atoms.ok()) return taker;  // MakePlan() reports the error
  const OrderChooser chooser(*atoms, network, FindTargetSlots(request, network), budget);
  const TargetSlots& slots = chooser.slots();
  const Order order = chooser.Run();
  if (budget.SpentNow()) return taker;
  for (int32_t s = 0; s < slots.count(); ++s) taker[slots.given[s]] = order[s];
  return taker;
}

ReshardRequest WithTargetOrder(ReshardRequest request, const std::vector<int64_t>& taker) {
  request.options.free_target_order = false;
  if (taker.empty()) return request;
  absl::flat_hash_map<DeviceListPtr, DeviceListPtr> ordered;
  for (ArraySpec& array : request.arrays) {
    DeviceListPtr& list = ordered[array.target.devices];
    if (list == nullptr) {
      DeviceList devices;
      for (const int64_t id : *array.target.devices) devices.push_back(taker[id]);
      list = std::make_shared<const DeviceList>(std::move(devices));
    }
    array.target.devices = list;
  }
  return request;
}

int64_t TargetOrdersChosen() { return orders_chosen; }

}  // namespace remesh::planner
