// SPDX-License-Identifier: Apache-2.0
#include "planner/report/explanation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/make_plan.h"
#include "planner/network/links.h"
#include "planner/network/network.h"
#include "planner/order/free_order.h"
#include "planner/report/checkpoint_cost.h"
#include "planner/report/names.h"
#include "planner/report/units.h"
#include "planner/report/waits.h"

namespace remesh::planner {
namespace {

// Links within this of the busiest count as equally busy: cuts fall between elements and rows.
constexpr double kTie = 1e-3;

int64_t Bytes(int64_t bits) { return (bits + 7) / 8; }

LinkLoads TotalLoads(const Plan& plan, const Links& links, Budget& budget) {
  LinkLoads loads(links);
  plan.ForEachFlow(
      [&](const Flow& flow) { loads.Add(flow.from_device, flow.to_device, flow.bits); }, budget);
  return loads;
}

// The busiest link inside hosts (`fabric`), or of all others; -1 where none is used.
int32_t BusiestLink(const Links& links, const LinkLoads& loads, bool fabric = false) {
  int32_t busiest = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(links.all().size()); ++i) {
    if ((links.all()[i].kind == Link::Kind::kFabric) != fabric || loads.BitsOf(i) == 0) continue;
    if (busiest < 0 || loads.SecondsOf(i) > loads.SecondsOf(busiest)) busiest = i;
  }
  return busiest;
}

std::string LoadText(const Links& links, const LinkLoads& loads, int32_t link,
                     const std::string& name) {
  return absl::StrFormat(
      "%s of %s carries %s at %s/s, %s", links.all()[link].egress ? "egress" : "ingress", name,
      BytesText(static_cast<double>(loads.BitsOf(link)) / 8),
      BytesText(links.all()[link].bytes_per_second), SecondsText(loads.SecondsOf(link)));
}

std::string CrossingText(const Links& links, const LinkLoads& loads, const Names& names,
                         int32_t busiest) {
  if (busiest < 0) return "no byte leaves its host";
  int64_t links_used = 0, ties = 0;
  for (const int32_t i : loads.used()) {
    if (links.all()[i].kind == Link::Kind::kFabric) continue;
    ++links_used;
    ties += loads.SecondsOf(i) >= loads.SecondsOf(busiest) * (1 - kTie);
  }
  const Link& link = links.all()[busiest];
  const std::string name =
      link.kind == Link::Kind::kNic ? names.Nic(link.index) : "domain " + names.Domain(link.index);
  return absl::StrFormat("%s; %d of %d links in use are as busy",
                         LoadText(links, loads, busiest, name), ties, links_used);
}

// The busiest link across hosts, and the busiest inside one where that takes longer still.
std::string BottleneckText(const Links& links, const LinkLoads& loads, const Network& network,
                           const Names& names) {
  const int32_t busiest = BusiestLink(links, loads);
  const int32_t inside = BusiestLink(links, loads, true);
  std::string text = CrossingText(links, loads, names, busiest);
  if (inside < 0 || (busiest >= 0 && loads.SecondsOf(inside) <= loads.SecondsOf(busiest)))
    return text;
  const std::string fabric =
      "the fabric of a device of host " + names.Host(network.host_of[links.all()[inside].index]);
  return absl::StrCat(text, "; inside hosts, ", LoadText(links, loads, inside, fabric));
}

// One row for each host, then one for each domain.
std::vector<DomainTraffic> EmptyRows(const Network& network, const Names& names) {
  std::vector<DomainTraffic> rows;
  for (int32_t h = 0; h < network.host_count(); ++h) {
    const double capacity = static_cast<double>(network.hosts[h].capacity());
    rows.push_back({.name = names.Host(h),
                    .ingress_bytes_per_second = capacity,
                    .egress_bytes_per_second = capacity});
  }
  for (int32_t d = 0; d < static_cast<int32_t>(network.domains.size()); ++d) {
    const Network::DomainNode& domain = network.domains[d];
    const size_t parent = network.hosts.size() + std::max(domain.parent, 0);
    rows.push_back({.kind = DomainTraffic::Kind::kDomain,
                    .name = names.Domain(d),
                    .level = domain.parent < 0 ? 0 : rows[parent].level + 1,
                    .ingress_bytes_per_second = static_cast<double>(domain.ingress),
                    .egress_bytes_per_second = static_cast<double>(domain.egress)});
  }
  return rows;
}

// Domains first, then hosts by name.
std::vector<DomainTraffic> InNameOrder(std::vector<DomainTraffic> rows,
                                       const std::vector<int32_t>& hosts) {
  std::vector<DomainTraffic> ordered(rows.begin() + static_cast<std::ptrdiff_t>(hosts.size()),
                                     rows.end());
  for (const int32_t host : hosts) ordered.push_back(std::move(rows[host]));
  return ordered;
}

std::vector<DomainTraffic> DomainRows(const Network& network, const Links& links,
                                      const LinkLoads& loads, const Names& names,
                                      const Binding& binding) {
  std::vector<DomainTraffic> rows = EmptyRows(network, names);
  std::vector<std::pair<int64_t, int64_t>> bits(rows.size());  // in, out
  const int32_t busiest = BusiestLink(links, loads);
  for (const int32_t i : loads.used()) {
    const Link& link = links.all()[i];
    if (link.kind == Link::Kind::kFabric) continue;
    const size_t row = link.kind == Link::Kind::kNic ? network.nics[link.index].host
                                                     : network.hosts.size() + link.index;
    (link.egress ? bits[row].second : bits[row].first) += loads.BitsOf(i);
    double& seconds = link.egress ? rows[row].egress_seconds : rows[row].ingress_seconds;
    seconds = std::max(seconds, loads.SecondsOf(i));
    if (loads.SecondsOf(i) >= loads.SecondsOf(busiest) * (1 - kTie)) rows[row].binding = true;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].ingress_bytes = Bytes(bits[i].first);
    rows[i].egress_bytes = Bytes(bits[i].second);
  }
  rows = InNameOrder(std::move(rows), HostsByName(binding));
  std::erase_if(rows,
                [](const DomainTraffic& r) { return r.ingress_bytes == 0 && r.egress_bytes == 0; });
  // Binding rows are equally busy except for rounding, so they stay in the order of names.
  std::stable_sort(rows.begin(), rows.end(), [](const DomainTraffic& a, const DomainTraffic& b) {
    if (a.binding || b.binding) return a.binding && !b.binding;
    return std::max(a.ingress_seconds, a.egress_seconds) >
           std::max(b.ingress_seconds, b.egress_seconds);
  });
  return rows;
}

std::vector<LevelTraffic> LevelsOf(const std::vector<DomainTraffic>& rows) {
  const auto seconds = [](const DomainTraffic& row) {
    return std::max(row.ingress_seconds, row.egress_seconds);
  };
  std::map<std::pair<bool, int32_t>, LevelTraffic> levels;
  for (const DomainTraffic& row : rows) {
    LevelTraffic& level = levels[{row.kind == DomainTraffic::Kind::kHost, row.level}];
    if (level.count == 0 || seconds(level.busiest) < seconds(row)) level.busiest = row;
    ++level.count;
    level.egress_bytes += row.egress_bytes;
    level.binding |= row.binding;
  }
  std::vector<LevelTraffic> list;
  for (auto& [key, level] : levels) list.push_back(std::move(level));
  return list;
}

StrategyCost CostOf(const PlanSummary& summary, std::string name, std::string how) {
  return {.name = std::move(name),
          .how = std::move(how),
          .crossing_bytes = summary.crossing_bytes + summary.relayed_bytes,
          .bottleneck_bytes = summary.bottleneck_bytes,
          .seconds = summary.bottleneck_seconds};
}

double Ratio(double seconds, double seconds_of_plan) {
  if (seconds_of_plan > 0) return seconds / seconds_of_plan;
  return seconds > 0 ? std::numeric_limits<double>::infinity() : 1;
}

// So wide that a naive strategy has few windows: its bytes do not depend on them.
constexpr int64_t kWideWindow = int64_t{1} << 45;

// Plans the request again with another strategy. Drops the memory limit, because the numbers of a
// strategy that would not fit into memory are still useful.
absl::StatusOr<StrategyCost> PlanAgain(CanonicalRequest request, Strategy strategy,
                                       std::string name, std::string how, Budget& budget) {
  request.request.options.strategy = strategy;
  request.request.options.memory_limit_bytes = 0;
  request.request.options.window_bytes = kWideWindow;
  ASSIGN_OR_RETURN(const Plan plan, MakePlan(request, budget));
  return CostOf(plan.summary(), std::move(name), std::move(how));
}

StrategyCost CheckpointRow(const CanonicalRequest& request, double bytes_per_second) {
  const CheckpointCost cost = CostOfCheckpoint(request, bytes_per_second);
  return {.name = "checkpoint round trip",
          .how = absl::StrFormat("all is written once, replicas sharing the work, then every host "
                                 "reads once what it needs, at %.4g GB/s a host",
                                 bytes_per_second / 1e9),
          .crossing_bytes = cost.written_bytes + cost.read_bytes,
          .bottleneck_bytes = cost.bottleneck_bytes,
          .seconds = cost.seconds};
}

absl::StatusOr<std::vector<StrategyCost>> Strategies(const CanonicalRequest& request,
                                                     const Plan& plan,
                                                     const ExplainOptions& options,
                                                     Budget& budget) {
  std::vector<StrategyCost> rows;
  rows.push_back(CostOf(plan.summary(), "this plan",
                        "each byte enters a host once, from the holders that balance the links"));
  ASSIGN_OR_RETURN(
      rows.emplace_back(),
      PlanAgain(request, Strategy::kP2p, "P2P per replica",
                "every target shard is pulled from one holder, once per replica", budget));
  ASSIGN_OR_RETURN(
      rows.emplace_back(),
      PlanAgain(request, Strategy::kGather, "gather + broadcast",
                "one device gathers everything and sends it to every device that needs it",
                budget));
  rows.push_back(CheckpointRow(request, options.checkpoint_bytes_per_second));
  for (StrategyCost& row : rows) row.ratio = Ratio(row.seconds, rows[0].seconds);
  return rows;
}

}  // namespace

absl::StatusOr<Explanation> Explain(const CanonicalRequest& request, const Plan& plan,
                                    const Binding& binding, const ExplainOptions& options,
                                    Budget& budget) {
  const double rate = options.checkpoint_bytes_per_second;
  if (!std::isfinite(rate) || rate <= 0) {
    return InvalidField("checkpoint_bytes_per_second", absl::StrCat(rate),
                        "must be finite and > 0");
  }
  const Network network = MakeNetwork(request.request);
  const Links links(network);
  const Names names(network, binding);
  const LinkLoads loads = TotalLoads(plan, links, budget);
  RETURN_IF_ERROR(budget.Check());
  const PlanSummary& summary = plan.summary();
  Explanation explanation{.certificate = Words(plan.lower_bound_certificate(), binding),
                          .bottleneck = BottleneckText(links, loads, network, names),
                          .schedule = {},
                          .domains = DomainRows(network, links, loads, names, binding)};
  explanation.levels = LevelsOf(explanation.domains);
  if (summary.routing_bound_seconds > summary.lower_bound_seconds) {
    explanation.routing_certificate = Words(plan.routing_bound_certificate(), binding);
  }
  if (summary.schedule_price > kExplainedPrice) {
    explanation.schedule = WaitsInWords(plan, request.request.topology, links, budget);
    RETURN_IF_ERROR(budget.Check());
  }
  const CanonicalRequest ordered{.request = WithTargetOrder(request.request, plan.target_order()),
                                 .fingerprint = request.fingerprint};
  ASSIGN_OR_RETURN(explanation.strategies, Strategies(ordered, plan, options, budget));
  return explanation;
}

}  // namespace remesh::planner
