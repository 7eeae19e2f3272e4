// SPDX-License-Identifier: Apache-2.0
#include "planner/report/traffic.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "planner/network/links.h"
#include "planner/network/network.h"
#include "planner/report/flows.h"
#include "planner/report/names.h"
#include "planner/schedule/cost_model.h"

namespace remesh::planner {
namespace {

int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }

double SecondsOf(int64_t bits, int64_t bytes_per_second) {
  return static_cast<double>(bits) / 8 / static_cast<double>(bytes_per_second);
}

// Where the page shows a host.
struct Place {
  int32_t group = 0;
  int32_t kind = -1;  // -1: no bytes enter or leave the host
  int32_t rack = -1;
};

// Fills traffic.racks. Returns the rack of each host.
std::vector<int32_t> RacksOf(const Network& network, const Binding& binding,
                             const std::vector<int32_t>& order, Traffic& traffic) {
  std::vector<int32_t> racks(order.size(), -1);
  int32_t last = -1;
  for (const int32_t host : order) {
    const int32_t domain = network.hosts[host].parent;
    if (domain < 0) continue;
    if (domain != last) traffic.racks.push_back(binding.domain_names[domain]);
    last = domain;
    racks[host] = static_cast<int32_t>(traffic.racks.size()) - 1;
  }
  return racks;
}

// Consecutive hosts of `order`; a group ends where a rack does if `by_rack`.
std::vector<Traffic::Group> GroupsOf(const Binding& binding, const std::vector<int32_t>& order,
                                     const std::vector<int32_t>& racks, int32_t hosts_per_group,
                                     bool by_rack) {
  std::vector<Traffic::Group> groups;
  for (const int32_t host : order) {
    const std::string& name = binding.host_names[host];
    const bool full = groups.empty() || groups.back().hosts == hosts_per_group;
    if (full || (by_rack && groups.back().rack != racks[host])) {
      groups.push_back({.first = name, .hosts = 0, .rack = racks[host]});
    }
    groups.back().last = name;
    ++groups.back().hosts;
  }
  return groups;
}

// Fills traffic.groups and traffic.racks, and says where hosts are among them and traffic.kinds.
std::vector<Place> GroupHosts(const Network& network, const Binding& binding, int32_t groups_max,
                              Traffic& traffic) {
  const std::vector<int32_t> order = HostsByRack(network, binding);
  const std::vector<int32_t> racks = RacksOf(network, binding, order, traffic);
  traffic.hosts_per_group = std::max(1, CeilDiv(network.host_count(), groups_max));
  traffic.groups = GroupsOf(binding, order, racks, traffic.hosts_per_group, /*by_rack=*/true);
  if (static_cast<int32_t>(traffic.groups.size()) > groups_max) {
    traffic.groups = GroupsOf(binding, order, racks, traffic.hosts_per_group, /*by_rack=*/false);
  }
  absl::flat_hash_map<std::string, int32_t> kind_of;
  for (size_t k = 0; k < traffic.kinds.size(); ++k) {
    for (const std::string& name : traffic.kinds[k].names) {
      kind_of[name] = static_cast<int32_t>(k);
    }
  }
  std::vector<Place> places(order.size());
  size_t at = 0;
  for (size_t group = 0; group < traffic.groups.size(); ++group) {
    for (int32_t i = 0; i < traffic.groups[group].hosts; ++i) {
      const int32_t host = order[at++];
      const auto kind = kind_of.find(binding.host_names[host]);
      places[host] = {static_cast<int32_t>(group), kind == kind_of.end() ? -1 : kind->second,
                      racks[host]};
    }
  }
  return places;
}

// Counts bits while windows come in and turns them into bytes at the end, so that rounding loses
// nothing.
class Recorder {
 public:
  Recorder(const Network& network, const Links& links, const Plan& plan, std::vector<Place> places,
           Traffic& traffic, Budget& budget)
      : network_(network),
        places_(std::move(places)),
        windows_(plan.summary().windows),
        stretch_(StretchOf(plan, links, budget)),
        loads_(links),
        bits_in_(places_.size(), 0),
        bits_out_(places_.size(), 0),
        traffic_(traffic) {
    traffic_.matrix.assign(traffic_.groups.size() * traffic_.groups.size(), 0);
    traffic_.flows.assign(traffic_.kinds.size() * traffic_.kinds.size(), 0);
  }

  void AddWindow(int32_t window, absl::Span<const Flow> flows) {
    loads_.Clear();
    Traffic::Step& step = StepOf(window);
    for (const Flow& flow : flows) {
      loads_.Add(flow.from_device, flow.to_device, flow.bits);
      AddFlow(flow, step);
    }
    step.seconds += stretch_ * WindowSeconds(loads_.seconds());
  }

  void Finish() {
    CloseStep();
    double start = 0;
    for (Traffic::Step& step : traffic_.steps) {
      step.start = start;
      start += step.seconds;
      ToBytes(step.crossing_bytes);
      ToBytes(step.bytes_inside);
    }
    std::for_each(traffic_.matrix.begin(), traffic_.matrix.end(), ToBytes);
    std::for_each(traffic_.flows.begin(), traffic_.flows.end(), ToBytes);
    for (Traffic::Group& group : traffic_.groups) ToBytes(group.bytes_inside);
    FinishRacks();
  }

 private:
  static void ToBytes(int64_t& bits) { bits = (bits + 7) / 8; }

  void FinishRacks() {
    for (const auto& [racks, bits] : rack_bits_) {
      traffic_.rack_flows.push_back({racks.first, racks.second, (bits + 7) / 8});
    }
    const auto before = [](const Traffic::RackFlow& a, const Traffic::RackFlow& b) {
      return std::tie(b.bytes, a.from, a.to) < std::tie(a.bytes, b.from, b.to);
    };
    std::sort(traffic_.rack_flows.begin(), traffic_.rack_flows.end(), before);
  }

  Traffic::Step& StepOf(int32_t window) {
    const int32_t first = window / traffic_.windows_per_step * traffic_.windows_per_step;
    if (traffic_.steps.empty() || traffic_.steps.back().first_window != first) {
      CloseStep();
      traffic_.steps.push_back({.first_window = first,
                                .windows = std::min(traffic_.windows_per_step, windows_ - first)});
    }
    return traffic_.steps.back();
  }

  void CloseStep() {
    if (traffic_.steps.empty()) return;
    traffic_.steps.back().in = BusyOf(bits_in_);
    traffic_.steps.back().out = BusyOf(bits_out_);
    std::fill(bits_in_.begin(), bits_in_.end(), 0);
    std::fill(bits_out_.begin(), bits_out_.end(), 0);
  }

  std::vector<Traffic::Busy> BusyOf(const std::vector<int64_t>& bits_of_host) const {
    std::vector<Traffic::Busy> busy(traffic_.kinds.size());
    std::vector<int64_t> bits(busy.size(), 0), capacity(busy.size(), 0);
    for (size_t host = 0; host < places_.size(); ++host) {
      const int32_t kind = places_[host].kind;
      if (kind < 0) continue;
      const int64_t of_host = network_.hosts[host].capacity();
      bits[kind] += bits_of_host[host];
      capacity[kind] += of_host;
      busy[kind].most_seconds =
          std::max(busy[kind].most_seconds, SecondsOf(bits_of_host[host], of_host));
    }
    for (size_t k = 0; k < busy.size(); ++k) busy[k].mean_seconds = SecondsOf(bits[k], capacity[k]);
    return busy;
  }

  void AddFlow(const Flow& flow, Traffic::Step& step) {
    const int32_t from_host = network_.host_of[flow.from_device];
    const int32_t to_host = network_.host_of[flow.to_device];
    const Place from = places_[from_host], to = places_[to_host];
    if (from_host == to_host) {
      step.bytes_inside += flow.bits;
      traffic_.groups[from.group].bytes_inside += flow.bits;
      return;
    }
    step.crossing_bytes += flow.bits;
    bits_out_[from_host] += flow.bits;
    bits_in_[to_host] += flow.bits;
    traffic_.matrix[from.group * traffic_.groups.size() + to.group] += flow.bits;
    traffic_.flows[from.kind * traffic_.kinds.size() + to.kind] += flow.bits;
    if (!traffic_.racks.empty()) rack_bits_[{from.rack, to.rack}] += flow.bits;
  }

  const Network& network_;
  const std::vector<Place> places_;  // by host
  const int32_t windows_;
  const double stretch_;
  LinkLoads loads_;
  std::vector<int64_t> bits_in_, bits_out_;                              // of the step, by host
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int64_t> rack_bits_;  // from, to
  Traffic& traffic_;
};

}  // namespace

Traffic TrafficOf(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                  const std::vector<AlikeTraffic>& alike, const TrafficOptions& options,
                  Budget& budget) {
  const Network network = MakeNetwork(request.request);
  const Links links(network);
  Traffic traffic;
  for (const AlikeTraffic& kind : alike) {
    if (kind.least.kind == DomainTraffic::Kind::kHost) traffic.kinds.push_back(kind);
  }
  std::vector<Place> places = GroupHosts(network, binding, options.groups_max, traffic);
  traffic.windows_per_step = std::max(1, CeilDiv(plan.summary().windows, options.steps_max));
  Recorder recorder(network, links, plan, std::move(places), traffic, budget);
  ForEachWindow(
      plan,
      [&](int32_t window, absl::Span<const Flow> flows) { recorder.AddWindow(window, flows); },
      budget);
  recorder.Finish();
  return traffic;
}

}  // namespace remesh::planner
