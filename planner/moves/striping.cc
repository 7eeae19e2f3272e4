// SPDX-License-Identifier: Apache-2.0
#include "planner/moves/striping.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "planner/routing/transportation.h"

namespace remesh::planner {
namespace {

// Whether each item has one bin, and no other item has it: then there is nothing to choose.
bool HaveOwnBins(const TransportationProblem& problem) {
  std::vector<bool> taken(problem.capacity.size(), false);
  for (const TransportationProblem::Item& item : problem.items) {
    if (item.bins.size() > 1 || taken[item.bins.front()]) return false;
    taken[item.bins.front()] = true;
  }
  return true;
}

// Spreads the load evenly over the NICs if the masks allow it, and stages nothing if `limit` allows
// it.
std::vector<Served> FlowOf(const TransportationProblem& problem, const Rational& even,
                           const Rational& limit) {
  if (HaveOwnBins(problem)) {
    std::vector<Served> flow;
    for (const TransportationProblem::Item& item : problem.items) {
      const int64_t room = limit.CeilTimes(problem.capacity[item.bins.front()]);
      flow.push_back({std::min(item.demand, room)});
    }
    return flow;
  }
  TransportationSolution solution = SolveTransportation(problem, even);
  if (limit < solution.t) return FillTransportation(problem, limit);
  return std::move(solution.flow);
}

}  // namespace

Striping::Striping(const Network& network, Dealing dealing)
    : network_(network), dealing_(dealing), masks_of_host_(network.hosts.size()) {
  for (size_t nic = 0; nic < network.nics.size(); ++nic) Intern({{static_cast<int32_t>(nic)}, 1});
}

int32_t Striping::Intern(Mask mask) {
  const auto [entry, inserted] = mask_of_.try_emplace(mask, static_cast<int32_t>(masks_.size()));
  if (inserted) {
    masks_of_host_[network_.nics[mask.nics.front()].host].push_back(entry->second);
    masks_.push_back(std::move(mask));
    demands_.resize(2 * masks_.size());
  }
  return entry->second;
}

int32_t Striping::MaskOf(absl::Span<const int32_t> some, absl::Span<const int32_t> others) {
  if (some.size() + others.size() == 1) {
    return network_.nic_of[some.empty() ? others.front() : some.front()];
  }
  const auto nics_of = [&](absl::Span<const int32_t> devices) {
    std::vector<int32_t> nics;
    for (int32_t device : devices) nics.push_back(network_.nic_of[device]);
    std::sort(nics.begin(), nics.end());
    nics.erase(std::unique(nics.begin(), nics.end()), nics.end());
    return nics;
  };
  Mask mask{nics_of(some), 0};
  mask.preferred = static_cast<int32_t>(mask.nics.size());
  for (const int32_t nic : nics_of(others)) {
    const auto end = mask.nics.begin() + mask.preferred;
    if (!std::binary_search(mask.nics.begin(), end, nic)) mask.nics.push_back(nic);
  }
  return Intern(std::move(mask));
}

Striping::Demand& Striping::DemandOf(Direction direction, int32_t mask) {
  return demands_[2 * mask + static_cast<int>(direction)];
}

void Striping::AddDemand(Direction direction, int32_t mask, int64_t bits) {
  DemandOf(direction, mask).bits += bits;
}

void Striping::Solve(const Rational& t, Budget& budget) {
  for (int32_t host = 0; host < network_.host_count() && !budget.SpentNow(); ++host) {
    SolveHost(host, Direction::kOut, t);
    SolveHost(host, Direction::kIn, t);
  }
}

void Striping::SolveHost(int32_t host, Direction direction, const Rational& t) {
  const Network::HostNode& node = network_.hosts[host];
  TransportationProblem problem;
  std::vector<Demand*> demands;
  int64_t total = 0;
  for (int32_t mask : masks_of_host_[host]) {
    Demand& demand = DemandOf(direction, mask);
    if (demand.bits == 0) continue;
    total += demand.bits;
    demands.push_back(&demand);
    TransportationProblem::Bins bins;
    for (int32_t nic : masks_[mask].nics) bins.push_back(nic - node.nics.front());
    problem.items.push_back(
        {.demand = demand.bits,
         .bins = std::move(bins),
         .even = dealing_ == Dealing::kStaggered && masks_[mask].nics.size() > 1,
         .preferred = masks_[mask].preferred});
  }
  if (demands.empty()) return;
  problem.capacity.assign(node.nics.size(), node.nic_capacity);
  const Rational even{total, node.capacity()};
  const Rational limit = std::max(t, even);
  const std::vector<Served> flow = FlowOf(problem, even, limit);
  std::vector<int64_t> room(node.nics.size(), limit.CeilTimes(node.nic_capacity));
  for (size_t i = 0; i < demands.size(); ++i) {
    for (size_t k = 0; k < problem.items[i].bins.size(); ++k) {
      const int64_t bits = flow[i][k];
      if (bits == 0) continue;
      const int32_t bin = problem.items[i].bins[k];
      demands[i]->shares.push_back({node.nics.front() + bin, bits});
      demands[i]->bits -= bits;
      room[bin] -= bits;
    }
  }
  // Demands of a host are often alike, so the excess of every other one comes first: else the
  // stripes that they are cut into would all end at one place, and go to the same receiver.
  bool excess_first = false;
  for (Demand* demand : demands) {
    if (demand->bits == 0) continue;
    const auto own = static_cast<ptrdiff_t>(demand->shares.size());
    for (size_t bin = 0; bin < room.size() && demand->bits > 0; ++bin) {
      const int64_t taken = std::min(demand->bits, room[bin]);
      if (taken <= 0) continue;
      demand->shares.push_back({node.nics.front() + static_cast<int32_t>(bin), taken});
      room[bin] -= taken;
      demand->bits -= taken;
    }
    REMESH_CHECK(demand->bits == 0);
    std::vector<Share>& shares = demand->shares;
    if (excess_first) std::rotate(shares.begin(), shares.begin() + own, shares.end());
    excess_first = !excess_first;
  }
  if (dealing_ == Dealing::kStaggered && direction == Direction::kIn) Stagger(demands);
}

// Turns the shares of demands that are split by different fractions of a share.
void Striping::Stagger(const std::vector<Demand*>& demands) {
  const auto is_split = [](const Demand* demand) { return demand->shares.size() > 1; };
  const int64_t count = std::count_if(demands.begin(), demands.end(), is_split);
  int64_t i = 0;
  for (Demand* demand : demands) {
    if (!is_split(demand)) continue;
    Turn(demand->shares, MulDiv(demand->shares.front().left, i++, count));
  }
}

// Moves the first bits, of the first share, to the end.
void Striping::Turn(std::vector<Share>& shares, int64_t bits) {
  if (bits == 0) return;
  const int32_t nic = shares.front().nic;
  shares.front().left -= bits;
  shares.push_back({nic, bits});
}

Striping::Taken Striping::Take(Direction direction, int32_t mask, int64_t bits, int64_t unit) {
  Demand& demand = DemandOf(direction, mask);
  while (demand.next + 1 < demand.shares.size() && demand.shares[demand.next].left <= unit / 2) {
    // Carries over the rest, which may be negative.
    demand.shares[demand.next + 1].left += demand.shares[demand.next].left;
    demand.shares[demand.next].left = 0;
    ++demand.next;
  }
  Share& share = demand.shares[demand.next];
  int64_t taken = bits;
  if (demand.next + 1 < demand.shares.size()) {
    taken = std::min(bits, (share.left + unit / 2) / unit * unit);
    taken = std::max(taken, std::min(bits, unit));
  }
  share.left -= taken;
  return {share.nic, taken};
}

int64_t Striping::TakeFrom(Direction direction, int32_t mask, int32_t nic, int64_t bits,
                           int64_t unit) {
  Demand& demand = DemandOf(direction, mask);
  for (size_t i = demand.next; i < demand.shares.size(); ++i) {
    Share& share = demand.shares[i];
    if (share.nic != nic) continue;
    const int64_t taken =
        share.left >= bits ? bits : std::max<int64_t>(0, share.left / unit * unit);
    share.left -= taken;
    return taken;
  }
  return 0;
}

}  // namespace remesh::planner
