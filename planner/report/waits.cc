// SPDX-License-Identifier: Apache-2.0
#include "planner/report/waits.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planner/report/flows.h"
#include "planner/report/units.h"
#include "planner/schedule/cost_model.h"

namespace remesh::planner {
namespace {

// What a window may have to wait for.
enum Cause { kNics, kUplinks, kFabric, kPosting, kHandOver, kCauses };

constexpr std::array<const char*, kCauses> kWords = {
    "NICs", "uplinks", "the fabric inside hosts", "posting", "the hand-over from one to the next"};

// Finds what a window waits for, by the model of ScheduleCost.
class Window {
 public:
  explicit Window(const Links& links)
      : links_(links),
        network_(links.network()),
        loads_(links),
        messages_(links.count(), 0),
        operations_(network_.host_count(), 0) {}

  void Add(const Flow& flow) {
    loads_.Add(flow.from_device, flow.to_device, flow.bits);
    ++messages_[links_.Sender(flow.from_device, flow.to_device)];
    ++messages_[links_.Receiver(flow.from_device, flow.to_device)];
    const int32_t from = network_.host_of[flow.from_device];
    const int32_t to = network_.host_of[flow.to_device];
    if (from == to) return;
    ++operations_[from];
    ++operations_[to];
  }

  struct Wait {
    Cause cause = kHandOver;
    double seconds = 0;  // of the window
  };

  // Empties the window.
  Wait Close() {
    Wait busiest;
    const auto raise = [&](Cause cause, double seconds) {
      if (seconds > busiest.seconds) busiest = {.cause = cause, .seconds = seconds};
    };
    for (const int32_t link : loads_.used()) {
      raise(CauseOf(link), loads_.SecondsOf(link) + messages_[link] * SecondsOfMessage(link));
      messages_[link] = 0;
    }
    for (int32_t host = 0; host < network_.host_count(); ++host) {
      raise(kPosting, operations_[host] * network_.hosts[host].operation_seconds);
      operations_[host] = 0;
    }
    loads_.Clear();
    if (busiest.seconds < kHandOverSeconds) busiest.cause = kHandOver;
    busiest.seconds = WindowSeconds(busiest.seconds);
    return busiest;
  }

 private:
  Cause CauseOf(int32_t link) const {
    if (links_.IsFabric(link)) return kFabric;
    return links_.all()[link].kind == Link::Kind::kNic ? kNics : kUplinks;
  }

  double SecondsOfMessage(int32_t link) const {
    const int32_t index = links_.all()[link].index;
    switch (CauseOf(link)) {
      case kNics:
        return network_.hosts[network_.nics[index].host].nic_message_seconds;
      case kFabric:
        return network_.hosts[network_.host_of[index]].fabric_message_seconds;
      default:
        return 0;
    }
  }

  const Links& links_;
  const Network& network_;
  LinkLoads loads_;
  std::vector<int32_t> messages_;    // of each link
  std::vector<int32_t> operations_;  // of each host
};

struct Waits {
  std::array<int64_t, kCauses> windows = {};
  std::array<double, kCauses> seconds = {};

  void Add(const Window::Wait& wait) {
    ++windows[wait.cause];
    seconds[wait.cause] += wait.seconds;
  }
};

Waits CountWaits(const Plan& plan, const Links& links, Budget& budget) {
  Waits waits;
  Window window(links);
  int64_t visited = 0;
  const auto add = [&](int32_t, absl::Span<const Flow> flows) {
    for (const Flow& flow : flows) window.Add(flow);
    waits.Add(window.Close());
    ++visited;
  };
  ForEachWindow(plan, add, budget);
  // Windows in which nothing flows.
  for (; visited < plan.summary().windows; ++visited) waits.Add(window.Close());
  return waits;
}

// "for NICs: 61 (12 ms), for posting: 3 (1 ms)", the longest first.
std::string WaitsText(const Waits& waits) {
  std::array<int, kCauses> causes;
  std::iota(causes.begin(), causes.end(), 0);
  std::stable_sort(causes.begin(), causes.end(),
                   [&](int a, int b) { return waits.seconds[a] > waits.seconds[b]; });
  std::vector<std::string> texts;
  for (const int cause : causes) {
    if (waits.windows[cause] == 0) continue;
    texts.push_back(absl::StrCat("for ", kWords[cause], ": ", waits.windows[cause], " (",
                                 SecondsText(waits.seconds[cause]), ")"));
  }
  return absl::StrJoin(texts, ", ");
}

// "each 2 us of a NIC and 1 us of a thread that posts, of which a host has 1 (assumed ...)".
std::string CostText(const Topology& topology) {
  const MessageCosts& costs = topology.hosts.front().message_costs;
  const bool alike = std::all_of(topology.hosts.begin(), topology.hosts.end(),
                                 [&](const Host& host) { return host.message_costs == costs; });
  if (!alike) return "at costs that differ between hosts";
  return absl::StrCat("each ", SecondsText(costs.nic_message_seconds), " of a NIC and ",
                      SecondsText(costs.post_seconds),
                      " of a thread that posts, of which a host has ", costs.posting_threads,
                      costs == MessageCosts{} ? " (assumed for NCCL, not measured)" : "");
}

}  // namespace

std::string WaitsInWords(const Plan& plan, const Topology& topology, const Links& links,
                         Budget& budget) {
  const PlanSummary& s = plan.summary();
  const bool fabric_binds = s.fabric_seconds > s.bottleneck_seconds;
  return absl::StrFormat(
      "%s, %.4g x the busiest %s, and %s with what messages cost; windows wait %s; %d "
      "messages, %s",
      SecondsText(s.schedule_seconds), s.schedule_price, fabric_binds ? "fabric" : "link",
      SecondsText(s.predicted_seconds), WaitsText(CountWaits(plan, links, budget)), s.messages,
      CostText(topology));
}

}  // namespace remesh::planner
