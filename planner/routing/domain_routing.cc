// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/domain_routing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/rational.h"
#include "planner/routing/routing.h"
#include "planner/routing/transport.h"

namespace remesh {
namespace {

// A class within one domain: hosts that hold it and hosts that need it.
struct Part {
  Group holders;
  Group needers;
};

// One stretch of one class, in one domain: what enters it, and what spreads inside it. Items index
// the transport problem, -1: none.
struct DomainWork {
  Part part;
  int32_t parent = -1;  // index into the stretch's works, of the domain it comes from
  int32_t entry_item = -1;
  int32_t root_item = -1;
  int32_t copies_item = -1;
  Group senders;  // bins of the entry
};

struct Stretch {
  size_t demand_class = 0;
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<DomainWork> works;  // parents first
};

class DomainRouter {
 public:
  DomainRouter(const DemandClasses& demand, const Network& network, const Units& units, int level)
      : demand_(demand), network_(network), units_(units), level_(level) {}

  std::vector<Route> Run() {
    for (const Network::HostNode& host : network_.hosts) {
      problem_.capacity.push_back(std::max<int64_t>(1, host.capacity()));
    }
    const std::vector<Route> between = RouteBetweenDomains();
    for (size_t a = 0; a < between.size(); ++a) {
      for (const RouteSegment& segment : between[a]) AddStretch(a, segment);
    }
    flow_ = SolveTransport(problem_, HostIngressBound(demand_, network_)).flow;
    std::vector<Route> routes(demand_.classes.size());
    for (const Stretch& stretch : stretches_) AppendSegments(stretch, routes[stretch.demand_class]);
    return routes;
  }

 private:
  Group UnitsOf(const Group& hosts) const {
    Group result;
    for (int32_t host : hosts) result.push_back(units_.UnitAt(host, level_));
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  // Trees of units for each class; no edges where all domains in need hold the class themselves.
  std::vector<Route> RouteBetweenDomains() const {
    std::vector<DemandClass> classes;
    std::vector<Route> routes(demand_.classes.size());
    std::vector<size_t> index_of;
    for (size_t a = 0; a < demand_.classes.size(); ++a) {
      const DemandClass& one = demand_.classes[a];
      DemandClass between{
          .holders = UnitsOf(one.holders), .needers = {}, .subs = {}, .bits = one.bits};
      const Group needers = UnitsOf(one.needers);
      std::set_difference(needers.begin(), needers.end(), between.holders.begin(),
                          between.holders.end(), std::back_inserter(between.needers));
      routes[a] = {{0, one.bits, {}}};
      if (between.needers.empty()) continue;
      index_of.push_back(a);
      classes.push_back(std::move(between));
    }
    std::vector<int64_t> capacity;
    for (int32_t u = 0; u < units_.count(); ++u) capacity.push_back(units_.Capacity(u, true));
    const std::vector<std::vector<int64_t>> sent = RouteUnits(classes, capacity);
    for (size_t i = 0; i < classes.size(); ++i)
      routes[index_of[i]] = MakeTrees(classes[i], sent[i]);
    return routes;
  }

  void AddStretch(size_t a, const RouteSegment& segment) {
    const DemandClass& one = demand_.classes[a];
    std::map<int32_t, Part> parts;
    for (int32_t host : one.holders) parts[units_.UnitAt(host, level_)].holders.push_back(host);
    for (int32_t host : one.needers) parts[units_.UnitAt(host, level_)].needers.push_back(host);
    Stretch stretch{.demand_class = a, .begin = segment.begin, .end = segment.end, .works = {}};
    const int64_t bits = segment.end - segment.begin;
    std::map<int32_t, int32_t> work_of_unit;
    for (auto& [unit, part] : parts) {
      if (part.holders.empty()) continue;
      work_of_unit[unit] = static_cast<int32_t>(stretch.works.size());
      stretch.works.push_back({.part = part});
      AddSpread(bits, stretch.works.back());
    }
    for (const RouteEdge& edge : segment.edges) {
      const int32_t parent = work_of_unit.at(edge.from_host);
      work_of_unit[edge.to_host] = static_cast<int32_t>(stretch.works.size());
      DomainWork work{.part = parts.at(edge.to_host), .parent = parent};
      const Part& giving = stretch.works[parent].part;
      work.senders = giving.holders;
      work.senders.insert(work.senders.end(), giving.needers.begin(), giving.needers.end());
      work.entry_item = AddItem(bits, work.senders, 0);
      AddSpread(bits, work);
      stretch.works.push_back(std::move(work));
    }
    stretches_.push_back(std::move(stretch));
  }

  // Copies inside one domain: by holders and needers, or by needers alone once the first has got
  // it.
  void AddSpread(int64_t bits, DomainWork& work) {
    const int64_t needers = static_cast<int64_t>(work.part.needers.size());
    if (needers == 0) return;
    std::vector<int32_t> all = work.part.holders;
    all.insert(all.end(), work.part.needers.begin(), work.part.needers.end());
    if (!work.part.holders.empty()) work.root_item = AddItem(bits, work.part.holders, 0);
    work.copies_item = AddItem(bits * (needers - 1), std::move(all), 1);
  }

  int32_t AddItem(int64_t demand, std::vector<int32_t> bins, int32_t priority) {
    problem_.items.push_back({.demand = demand, .bins = std::move(bins), .priority = priority});
    return static_cast<int32_t>(problem_.items.size()) - 1;
  }

  // Wheels of who enters each domain, and of who spreads inside it.
  struct Wheels {
    std::vector<DegreeWheel> entry;  // one, or none
    std::vector<DegreeWheel> spread;
  };

  Wheels WheelsOf(const DomainWork& work, int64_t bits, std::vector<int64_t>& cuts) const {
    Wheels wheels;
    const auto add = [&](const std::vector<int64_t>& sent, std::vector<DegreeWheel>& to) {
      to.emplace_back(bits, sent);
      cuts.insert(cuts.end(), to.back().cuts().begin(), to.back().cuts().end());
    };
    if (work.entry_item >= 0) add(flow_[work.entry_item], wheels.entry);
    if (work.copies_item >= 0) {
      std::vector<int64_t> sent = flow_[work.copies_item];
      if (work.root_item >= 0) {
        for (size_t k = 0; k < flow_[work.root_item].size(); ++k)
          sent[k] += flow_[work.root_item][k];
      }
      add(sent, wheels.spread);
    }
    return wheels;
  }

  void AppendSegments(const Stretch& stretch, Route& route) const {
    const int64_t bits = stretch.end - stretch.begin;
    std::vector<int64_t> cuts = {0, bits};
    std::vector<Wheels> wheels;
    for (const DomainWork& work : stretch.works) wheels.push_back(WheelsOf(work, bits, cuts));
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      RouteSegment segment{stretch.begin + cuts[c], stretch.begin + cuts[c + 1], {}};
      for (size_t w = 0; w < stretch.works.size(); ++w) {
        AppendEdges(stretch.works[w], wheels[w], cuts[c], segment.edges);
      }
      route.push_back(std::move(segment));
    }
  }

  static void AppendEdges(const DomainWork& work, const Wheels& wheels, int64_t at,
                          std::vector<RouteEdge>& edges) {
    if (wheels.spread.empty()) return;
    std::vector<int64_t> degrees = wheels.spread.front().DegreesAt(at);
    if (work.entry_item < 0)
      return AppendTree(work.part.holders, work.part.needers, degrees, edges);
    // The needer with most to pass on is let in first.
    const std::vector<int64_t> entry = wheels.entry.front().DegreesAt(at);
    const size_t sender = std::max_element(entry.begin(), entry.end()) - entry.begin();
    const size_t first = std::max_element(degrees.begin(), degrees.end()) - degrees.begin();
    std::vector<int32_t> others = work.part.needers;
    const int32_t gate = others[first];
    edges.push_back({work.senders[sender], gate});
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(first));
    std::rotate(degrees.begin(), degrees.begin() + static_cast<std::ptrdiff_t>(first),
                degrees.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    AppendTree({gate}, others, degrees, edges);
  }

  const DemandClasses& demand_;
  const Network& network_;
  const Units& units_;
  const int level_;
  TransportProblem problem_;
  std::vector<Stretch> stretches_;
  std::vector<std::vector<int64_t>> flow_;
};

}  // namespace

std::vector<Route> RouteThroughDomains(const DemandClasses& demand, const Network& network,
                                       const Units& units, int level) {
  return DomainRouter(demand, network, units, level).Run();
}

}  // namespace remesh
