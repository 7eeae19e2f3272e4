// SPDX-License-Identifier: Apache-2.0
#include "planner/report/traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/report/flows.h"
#include "planner/report/links.h"
#include "planner/report/names.h"
#include "planner/routing/network.h"
#include "planner/schedule/cost_model.h"

namespace remesh {
namespace {

int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }

std::vector<Traffic::Group> GroupsOf(const Network& network, const Binding& binding,
                                     const std::vector<int32_t>& order, int32_t hosts_per_group) {
  std::vector<Traffic::Group> groups;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string& name = binding.host_names[order[i]];
    if (i % hosts_per_group == 0) groups.push_back({.name = name, .hosts = 0});
    Traffic::Group& group = groups.back();
    const bool last = i + 1 == order.size() || (i + 1) % hosts_per_group == 0;
    if (last && group.hosts > 0) absl::StrAppend(&group.name, " .. ", name);
    ++group.hosts;
    group.devices += network.hosts[order[i]].device_count;
    group.bytes_per_second += static_cast<double>(network.hosts[order[i]].capacity());
  }
  return groups;
}

// Counts bits while windows come in, and turns them into bytes at the end, so that nothing is lost
// to rounding.
class Recorder {
 public:
  Recorder(const Network& network, const Links& links, const std::vector<int32_t>& order,
           int32_t windows, Traffic& traffic)
      : network_(network),
        group_of_(order.size()),
        windows_(windows),
        loads_(links),
        traffic_(traffic) {
    for (size_t i = 0; i < order.size(); ++i) {
      group_of_[order[i]] = static_cast<int32_t>(i) / traffic_.hosts_per_group;
    }
    traffic_.matrix.assign(traffic_.groups.size() * traffic_.groups.size(), 0);
  }

  void AddWindow(int32_t window, absl::Span<const Flow> flows) {
    loads_.Clear();
    Traffic::Step& step = StepOf(window);
    for (const Flow& flow : flows) {
      loads_.Add(flow.from_device, flow.to_device, flow.bits);
      AddFlow(flow, step);
    }
    step.seconds += WindowSeconds(loads_.seconds());
  }

  void Finish() {
    const auto to_bytes = [](int64_t& bits) { bits = (bits + 7) / 8; };
    double start = 0;
    std::for_each(traffic_.matrix.begin(), traffic_.matrix.end(), to_bytes);
    for (Traffic::Step& step : traffic_.steps) {
      step.start = start;
      start += step.seconds;
      to_bytes(step.bytes_crossing);
      to_bytes(step.bytes_local);
      std::for_each(step.bytes_in.begin(), step.bytes_in.end(), to_bytes);
      std::for_each(step.bytes_out.begin(), step.bytes_out.end(), to_bytes);
    }
  }

 private:
  Traffic::Step& StepOf(int32_t window) {
    const int32_t first = window / traffic_.windows_per_step * traffic_.windows_per_step;
    if (traffic_.steps.empty() || traffic_.steps.back().first_window != first) {
      const std::vector<int64_t> zeros(traffic_.groups.size(), 0);
      traffic_.steps.push_back({.first_window = first,
                                .windows = std::min(traffic_.windows_per_step, windows_ - first),
                                .bytes_in = zeros,
                                .bytes_out = zeros});
    }
    return traffic_.steps.back();
  }

  void AddFlow(const Flow& flow, Traffic::Step& step) {
    const int32_t from_host = network_.host_of[flow.from_device];
    const int32_t to_host = network_.host_of[flow.to_device];
    const int32_t from = group_of_[from_host];
    const int32_t to = group_of_[to_host];
    traffic_.matrix[from * traffic_.groups.size() + to] += flow.bits;
    if (from_host == to_host) {
      step.bytes_local += flow.bits;
      return;
    }
    step.bytes_crossing += flow.bits;
    step.bytes_out[from] += flow.bits;
    step.bytes_in[to] += flow.bits;
  }

  const Network& network_;
  std::vector<int32_t> group_of_;  // host -> group
  const int32_t windows_;
  LinkLoads loads_;
  Traffic& traffic_;
};

}  // namespace

Traffic TrafficOf(const CanonicalRequest& request, const Plan& plan, const Binding& binding,
                  const TrafficOptions& options) {
  const Network network = MakeNetwork(request.request);
  const Links links(network);
  Traffic traffic;
  traffic.hosts_per_group = std::max(1, CeilDiv(network.host_count(), options.groups_max));
  const std::vector<int32_t> order = HostsByName(binding);
  traffic.groups = GroupsOf(network, binding, order, traffic.hosts_per_group);
  traffic.windows_per_step = std::max(1, CeilDiv(plan.summary().windows, options.steps_max));
  Recorder recorder(network, links, order, plan.summary().windows, traffic);
  ForEachWindow(plan, [&](int32_t window, absl::Span<const Flow> flows) {
    recorder.AddWindow(window, flows);
  });
  recorder.Finish();
  return traffic;
}

}  // namespace remesh
