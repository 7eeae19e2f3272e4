// SPDX-License-Identifier: Apache-2.0
#include "planner/cost_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace remesh {
namespace {

// Numbers of resources: NICs, then domains, then devices; each has an egress (even) and an ingress
// (odd).
class Resources {
 public:
  explicit Resources(const Network& network) : network_(network) {
    for (const Network::Nic& nic : network.nics) AddBoth(network.hosts[nic.host].nic_capacity);
    for (const Network::DomainNode& domain : network.domains) {
      capacity_.push_back(static_cast<double>(domain.egress));
      capacity_.push_back(static_cast<double>(domain.ingress));
    }
    first_device_ = static_cast<int32_t>(capacity_.size());
    for (int32_t host : network.host_of) AddBoth(network.hosts[host].fabric_capacity);
  }

  int32_t count() const { return static_cast<int32_t>(capacity_.size()); }
  bool IsFabric(int32_t resource) const { return resource >= first_device_; }
  double SecondsFor(int32_t resource, double bits) const { return bits / 8 / capacity_[resource]; }

  template <typename Visit>
  void ForEachUsed(const Move& move, const Visit& visit) const {
    if (move.from_device == move.to_device) return;
    const int32_t from = network_.host_of[move.from_device];
    const int32_t to = network_.host_of[move.to_device];
    if (from == to) {
      visit(first_device_ + 2 * move.from_device);
      visit(first_device_ + 2 * move.to_device + 1);
      return;
    }
    visit(2 * network_.nic_of[move.from_device]);
    visit(2 * network_.nic_of[move.to_device] + 1);
    ForEachUplink(from, to, 0, visit);
    ForEachUplink(to, from, 1, visit);
  }

  std::string NameOf(int32_t resource) const {
    const char* direction = resource % 2 == 0 ? "egress" : "ingress";
    const int32_t nics = static_cast<int32_t>(network_.nics.size());
    if (resource / 2 < nics) {
      const int32_t host = network_.nics[resource / 2].host;
      return absl::StrCat(direction, " of a NIC of host ", host);
    }
    return absl::StrCat(direction, " of domain ", resource / 2 - nics);
  }

 private:
  void AddBoth(int64_t capacity) {
    capacity_.push_back(static_cast<double>(capacity));
    capacity_.push_back(static_cast<double>(capacity));
  }

  bool Contains(int32_t domain, int32_t host) const {
    for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
      if (d == domain) return true;
    }
    return false;
  }

  // Domains above `host` that do not hold `other` as well.
  template <typename Visit>
  void ForEachUplink(int32_t host, int32_t other, int32_t direction, const Visit& visit) const {
    for (int32_t d = network_.hosts[host].parent; d >= 0; d = network_.domains[d].parent) {
      if (Contains(d, other)) return;
      visit(2 * (static_cast<int32_t>(network_.nics.size()) + d) + direction);
    }
  }

  const Network& network_;
  std::vector<double> capacity_;  // bytes per second
  int32_t first_device_ = 0;
};

struct Load {
  int32_t resource;
  int64_t bits;
};

// Loads of each stage of one round, a resource perhaps several times.
using StageLoads = std::vector<std::vector<Load>>;

StageLoads LoadsOfRound(const PlanDraft& draft, const Resources& resources, int32_t round) {
  StageLoads loads(draft.schedule.stages);
  for (int32_t i = draft.round_begin[round]; i < draft.round_begin[round + 1]; ++i) {
    const Move& move = draft.moves[i];
    resources.ForEachUsed(move, [&](int32_t resource) {
      loads[move.stage].push_back({resource, move.hi - move.lo});
    });
  }
  return loads;
}

// Adds stage after stage and keeps the seconds that the busiest resource would take for all of
// them.
class RunningMax {
 public:
  explicit RunningMax(const Resources& resources)
      : resources_(resources), bits_(resources.count(), 0) {}

  double Add(const std::vector<Load>& loads) {
    for (const Load& load : loads) {
      bits_[load.resource] += load.bits;
      seconds_ = std::max(seconds_, resources_.SecondsFor(
                                        load.resource, static_cast<double>(bits_[load.resource])));
    }
    return seconds_;
  }

 private:
  const Resources& resources_;
  std::vector<int64_t> bits_;
  double seconds_ = 0;
};

// Seconds of all windows of one round: slices + stages - 1 cycles, of which cycle c runs the stages
// c - slices + 1 .. c.
double RoundSeconds(const StageLoads& loads, const Resources& resources, int32_t slices) {
  const int32_t stages = static_cast<int32_t>(loads.size());
  double sum = 0;
  RunningMax filling(resources);
  for (int32_t c = 0; c + 1 < std::min(slices, stages); ++c) sum += filling.Add(loads[c]);
  RunningMax draining(resources);
  for (int32_t c = stages - 1; c > stages - std::min(slices, stages); --c) {
    sum += draining.Add(loads[c]);
  }
  if (slices >= stages)
    return (sum + (slices - stages + 1) * filling.Add(loads[stages - 1])) / slices;
  for (int32_t first = 0; first + slices <= stages; ++first) {
    RunningMax full(resources);
    double seconds = 0;
    for (int32_t l = first; l < first + slices; ++l) seconds = full.Add(loads[l]);
    sum += seconds;
  }
  return sum / slices;
}

}  // namespace

namespace {

// Everything but the prediction.
Cost Totals(const PlanDraft& draft, const Resources& resources) {
  std::vector<int64_t> bits(resources.count(), 0);
  for (const Move& move : draft.moves) {
    resources.ForEachUsed(move, [&](int32_t r) { bits[r] += move.hi - move.lo; });
  }
  Cost cost;
  for (int32_t r = 0; r < resources.count(); ++r) {
    const double seconds = resources.SecondsFor(r, static_cast<double>(bits[r]));
    if (resources.IsFabric(r)) {
      cost.fabric_seconds = std::max(cost.fabric_seconds, seconds);
    } else if (seconds > cost.bottleneck_seconds) {
      cost.bottleneck_seconds = seconds;
      cost.bottleneck_bytes = (bits[r] + 7) / 8;
      cost.bottleneck = resources.NameOf(r);
    }
  }
  return cost;
}

}  // namespace

double BottleneckSeconds(const PlanDraft& draft, const Network& network) {
  return Totals(draft, Resources(network)).bottleneck_seconds;
}

Cost Estimate(const PlanDraft& draft, const Network& network) {
  const Resources resources(network);
  Cost cost = Totals(draft, resources);
  for (int32_t round = 0; round < draft.schedule.rounds; ++round) {
    cost.predicted_seconds +=
        RoundSeconds(LoadsOfRound(draft, resources, round), resources, draft.schedule.slices);
  }
  return cost;
}

}  // namespace remesh
