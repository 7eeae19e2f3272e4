// SPDX-License-Identifier: Apache-2.0
#include "planner/report/flows.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "planner/schedule/cost_model.h"

namespace remesh::planner {
namespace {

// Merges the flows of one pair of devices, from several moves, into one.
void MergePairs(std::vector<Flow>& flows) {
  const auto pair = [](const Flow& flow) { return std::tie(flow.from_device, flow.to_device); };
  std::sort(flows.begin(), flows.end(),
            [&](const Flow& a, const Flow& b) { return pair(a) < pair(b); });
  size_t end = 0;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (end > 0 && pair(flows[end - 1]) == pair(flows[i])) {
      flows[end - 1].bits += flows[i].bits;
    } else {
      flows[end++] = flows[i];
    }
  }
  flows.resize(end);
}

}  // namespace

void ForEachWindow(const Plan& plan,
                   absl::FunctionRef<void(int32_t window, absl::Span<const Flow> flows)> visit,
                   Budget& budget) {
  std::vector<Flow> flows;
  const auto flush = [&] {
    if (flows.empty()) return;
    MergePairs(flows);
    visit(flows[0].window, flows);
    flows.clear();
  };
  plan.ForEachFlow(
      [&](const Flow& flow) {
        if (!flows.empty() && flow.window != flows[0].window) flush();
        flows.push_back(flow);
      },
      budget);
  flush();
}

double StretchOf(const Plan& plan, const Links& links, Budget& budget) {
  LinkLoads loads(links);
  double seconds = 0;
  const auto add = [&](int32_t, absl::Span<const Flow> flows) {
    loads.Clear();
    for (const Flow& flow : flows) loads.Add(flow.from_device, flow.to_device, flow.bits);
    seconds += WindowSeconds(loads.seconds());
  };
  ForEachWindow(plan, add, budget);
  return seconds > 0 ? plan.summary().predicted_seconds / seconds : 1;
}

}  // namespace remesh::planner
