// SPDX-License-Identifier: Apache-2.0
#include "planner/moves.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/check.h"

namespace remesh {
namespace {

int64_t MulDiv(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<__int128>(a) * b / c);
}

// A stretch [lo, hi) of a segment in the hands of one device.
struct Stripe {
  int64_t lo = 0;
  int64_t hi = 0;
  int32_t device = 0;
};

// `size` bits cut into equal stripes over the devices, starting with the one at `turn`.
std::vector<Stripe> EqualStripes(int64_t size, absl::Span<const int32_t> devices, int64_t turn) {
  const int64_t n = static_cast<int64_t>(devices.size());
  std::vector<Stripe> stripes;
  for (int64_t i = 0; i < n; ++i) {
    const Stripe stripe{MulDiv(size, i, n), MulDiv(size, i + 1, n), devices[(i + turn) % n]};
    if (stripe.lo < stripe.hi) stripes.push_back(stripe);
  }
  return stripes;
}

// The devices of a sorted group that belong to `host`.
absl::Span<const int32_t> InHost(const Group& group, int32_t host, const Network& network) {
  const Network::HostNode& node = network.hosts[host];
  const auto begin = std::lower_bound(group.begin(), group.end(), node.first_device);
  const auto end = std::lower_bound(begin, group.end(), node.first_device + node.device_count);
  return absl::MakeConstSpan(group).subspan(begin - group.begin(), end - begin);
}

bool Holds(absl::Span<const int32_t> sorted, int32_t device) {
  return std::binary_search(sorted.begin(), sorted.end(), device);
}

// Where both lists of stripes overlap: visit(lo, hi, from device, to device).
template <typename Visit>
void Overlay(const std::vector<Stripe>& from, const std::vector<Stripe>& to, const Visit& visit) {
  for (size_t f = 0, t = 0; f < from.size() && t < to.size();) {
    const int64_t lo = std::max(from[f].lo, to[t].lo);
    const int64_t hi = std::min(from[f].hi, to[t].hi);
    if (lo < hi) visit(lo, hi, from[f].device, to[t].device);
    (from[f].hi <= to[t].hi ? f : t) += 1;
  }
}

int32_t AddSegment(int32_t sub, int64_t lo, int64_t hi, Plan::Rep& rep) {
  rep.segments.push_back({sub, lo, hi});
  return static_cast<int32_t>(rep.segments.size()) - 1;
}

// Moves of one segment.
class SegmentMover {
 public:
  SegmentMover(int32_t segment, const Network& network, Plan::Rep& rep)
      : segment_(segment),
        network_(network),
        rep_(rep),
        size_(rep.segments[segment].size()),
        sub_(rep.atoms.subs[rep.segments[segment].sub]),
        holders_(rep.atoms.groups[sub_.holders]),
        needers_(rep.atoms.groups[sub_.needers]) {}

  // Devices of hosts that hold it: what stays, and what comes from a neighbour.
  void MoveInside() {
    for (size_t i = 0; i < needers_.size(); ++i) {
      const int32_t needer = needers_[i];
      if (Holds(holders_, needer)) {
        Add(0, size_, needer, needer, Space::kSource, 0);
        continue;
      }
      const auto near = InHost(holders_, network_.host_of[needer], network_);
      if (near.empty()) continue;
      for (const Stripe& s : EqualStripes(size_, near, static_cast<int64_t>(i))) {
        Add(s.lo, s.hi, s.device, needer, Space::kSource, 0);
      }
    }
  }

  void Follow(const RouteEdge& edge) {
    const auto near = InHost(holders_, edge.from_host, network_);
    const auto needers = InHost(needers_, edge.to_host, network_);
    Arrival arrival{.stage = 0, .stripes = EqualStripes(size_, needers, segment_)};
    if (!near.empty()) {
      Send(EqualStripes(size_, near, segment_), Space::kSource, arrival);
    } else {
      const auto relay = arrivals_.find(edge.from_host);
      REMESH_CHECK(relay != arrivals_.end());
      arrival.stage = relay->second.stage + 1;
      Send(relay->second.stripes, Space::kTarget, arrival);
    }
    for (const Stripe& s : arrival.stripes) {
      for (int32_t needer : needers) {
        if (needer == s.device) continue;
        Add(s.lo, s.hi, s.device, needer, Space::kTarget, arrival.stage + 1);
      }
    }
    arrivals_[edge.to_host] = std::move(arrival);
  }

  void Add(int64_t lo, int64_t hi, int32_t from, int32_t to, Space from_space, int stage,
           Space to_space = Space::kTarget) {
    rep_.moves.push_back({.segment = segment_,
                          .from_device = from,
                          .to_device = to,
                          .from_space = from_space,
                          .to_space = to_space,
                          .stage = static_cast<int16_t>(stage),
                          .lo = lo,
                          .hi = hi});
  }

 private:
  struct Arrival {
    int stage = 0;
    std::vector<Stripe> stripes;
  };

  void Send(const std::vector<Stripe>& from, Space from_space, const Arrival& arrival) {
    Overlay(from, arrival.stripes, [&](int64_t lo, int64_t hi, int32_t sender, int32_t receiver) {
      Add(lo, hi, sender, receiver, from_space, arrival.stage);
    });
  }

  const int32_t segment_;
  const Network& network_;
  Plan::Rep& rep_;
  const int64_t size_;
  const Sub sub_;
  const Group& holders_;
  const Group& needers_;
  absl::flat_hash_map<int32_t, Arrival> arrivals_;  // by host
};

}  // namespace

void MakeOptimalMoves(const DemandClasses& demand, const std::vector<Route>& routes,
                      const Network& network, Plan::Rep& rep) {
  for (size_t s = 0; s < rep.atoms.subs.size(); ++s) {
    const int64_t bits = rep.atoms.subs[s].bits;
    const int32_t index = static_cast<int32_t>(s);
    if (bits == 0) continue;
    if (demand.class_of[s] < 0) {
      SegmentMover(AddSegment(index, 0, bits, rep), network, rep).MoveInside();
      continue;
    }
    const int64_t whole = demand.classes[demand.class_of[s]].bits;
    for (const RouteSegment& part : routes[demand.class_of[s]].segments) {
      const int64_t lo = MulDiv(part.begin, bits, whole);
      const int64_t hi = MulDiv(part.end, bits, whole);
      if (lo == hi) continue;
      SegmentMover mover(AddSegment(index, lo, hi, rep), network, rep);
      mover.MoveInside();
      for (const RouteEdge& edge : part.edges) mover.Follow(edge);
    }
  }
}

namespace {

// Every needer pulls the whole of `sub` from one holder.
void PullSub(int32_t index, const Network& network, Plan::Rep& rep) {
  const Sub sub = rep.atoms.subs[index];
  SegmentMover mover(AddSegment(index, 0, sub.bits, rep), network, rep);
  const Group& holders = rep.atoms.groups[sub.holders];
  const Group& needers = rep.atoms.groups[sub.needers];
  for (size_t i = 0; i < needers.size(); ++i) {
    absl::Span<const int32_t> from = InHost(holders, network.host_of[needers[i]], network);
    if (from.empty()) from = holders;
    const int32_t holder = Holds(holders, needers[i]) ? needers[i] : from[i % from.size()];
    mover.Add(0, sub.bits, holder, needers[i], Space::kSource, 0);
  }
}

// `gatherer` gets `sub` unless it holds it, and sends it to the others.
void GatherSub(int32_t index, int32_t gatherer, const Network& network, Plan::Rep& rep) {
  const Sub sub = rep.atoms.subs[index];
  SegmentMover mover(AddSegment(index, 0, sub.bits, rep), network, rep);
  const Group& holders = rep.atoms.groups[sub.holders];
  const Group& needers = rep.atoms.groups[sub.needers];
  const bool wanted = std::any_of(needers.begin(), needers.end(),
                                  [&](int32_t needer) { return !Holds(holders, needer); });
  Space space = Space::kSource;
  if (!Holds(holders, gatherer) && wanted) {
    space = Holds(needers, gatherer) ? Space::kTarget : Space::kStaging;
    mover.Add(0, sub.bits, holders[index % holders.size()], gatherer, Space::kSource, 0, space);
  }
  for (int32_t needer : needers) {
    if (Holds(holders, needer)) {
      mover.Add(0, sub.bits, needer, needer, Space::kSource, 0);
    } else if (needer != gatherer) {
      mover.Add(0, sub.bits, gatherer, needer, space, space == Space::kSource ? 0 : 1);
    }
  }
}

}  // namespace

void MakeP2pMoves(const Network& network, Plan::Rep& rep) {
  for (size_t s = 0; s < rep.atoms.subs.size(); ++s) {
    PullSub(static_cast<int32_t>(s), network, rep);
  }
}

void MakeGatherMoves(const Network& network, Plan::Rep& rep) {
  int32_t gatherer = 0;
  while (gatherer < network.device_count() && network.nic_of[gatherer] < 0) ++gatherer;
  for (size_t s = 0; s < rep.atoms.subs.size(); ++s) {
    if (rep.atoms.subs[s].may_stage) {
      GatherSub(static_cast<int32_t>(s), gatherer, network, rep);
    } else {
      PullSub(static_cast<int32_t>(s), network, rep);
    }
  }
}

}  // namespace remesh
