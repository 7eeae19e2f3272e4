// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/fabric_bound.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "planner/routing/transportation.h"

namespace remesh::planner {
namespace {

using Kind = Certificate::Kind;

// What every device must move in any plan, and inside its host. Of what several devices of a host
// hold, each counts here as if it sent an equal share.
struct MustMove {
  std::vector<int64_t> in_bits;
  std::vector<int64_t> out_bits;
  std::vector<int64_t> local_in_bits;
  std::vector<int64_t> shared_out_bits;
};

class FabricBounds {
 public:
  FabricBounds(const Atoms& atoms, const Network& network, Budget& budget)
      : atoms_(atoms), network_(network), budget_(budget) {}

  Bound Largest() {
    for (const Tape& tape : atoms_.tapes) {
      if (budget_.Spent()) return {};
      AddTape(tape);
    }
    for (int32_t device = 0; device < network_.device_count(); ++device) {
      RaiseTo(must_.in_bits[device], Both(device), Kind::kIngress, device);
      RaiseTo(must_.out_bits[device], Both(device), Kind::kEgress, device);
      RaiseTo(must_.local_in_bits[device], Fabric(device), Kind::kLocalIngress, device);
    }
    RaiseToSets();
    return std::move(bound_);
  }

 private:
  int64_t Fabric(int32_t device) const {
    return network_.hosts[network_.host_of[device]].fabric_capacity;
  }
  int64_t Both(int32_t device) const {
    const Network::HostNode& host = network_.hosts[network_.host_of[device]];
    return host.fabric_capacity + (network_.nic_of[device] >= 0 ? host.nic_capacity : 0);
  }

  void AddTape(const Tape& tape) {
    const Group& holders = atoms_.groups[tape.holders];
    bool leaves = false;
    ForEachHostInNeed(tape, [&](absl::Span<const int32_t> near, absl::Span<const int32_t> in_need) {
      leaves = true;
      for (const int32_t device : in_need) {
        must_.in_bits[device] += tape.bits;
        if (!near.empty()) must_.local_in_bits[device] += tape.bits;
      }
      const int64_t holding = static_cast<int64_t>(near.size());
      for (const int32_t device : near) {
        must_.shared_out_bits[device] += tape.bits / holding + (tape.bits % holding != 0 ? 1 : 0);
      }
    });
    if (leaves && holders.size() == 1) must_.out_bits[holders[0]] += tape.bits;
  }

  // Calls visit(its devices that hold the tape, those that need it and do not hold it) for each host
  // that has some of the latter.
  template <typename Visit>
  void ForEachHostInNeed(const Tape& tape, const Visit& visit) {
    const absl::Span<const int32_t> holders = atoms_.groups[tape.holders];
    const absl::Span<const int32_t> needers = atoms_.groups[tape.needers];
    size_t holder = 0;
    for (size_t i = 0; i < needers.size();) {
      const Network::HostNode& host = network_.hosts[network_.host_of[needers[i]]];
      const int32_t end_device = host.first_device + host.device_count;
      holder = std::lower_bound(holders.begin() + holder, holders.end(), host.first_device) -
               holders.begin();
      size_t end = holder;
      while (end < holders.size() && holders[end] < end_device) ++end;
      const auto near = holders.subspan(holder, end - holder);
      in_need_.clear();
      for (; i < needers.size() && needers[i] < end_device; ++i) {
        if (!std::binary_search(near.begin(), near.end(), needers[i])) {
          in_need_.push_back(needers[i]);
        }
      }
      if (!in_need_.empty()) visit(near, in_need_);
    }
  }

  void RaiseTo(int64_t bits, int64_t capacity, Kind kind, int32_t device) {
    const Rational t{bits, capacity};
    if (!(bound_.t < t)) return;
    bound_.t = t;
    bound_.certificate = {.kind = kind, .devices = {device}, .bits = t.num, .capacity = t.den};
  }

  // Looks at the hosts whose devices could not share equally what they must send in the time of the
  // bound so far.
  void RaiseToSets() {
    std::vector<bool> is_open(network_.hosts.size(), false);
    for (int32_t device = 0; device < network_.device_count(); ++device) {
      const Rational equally{must_.shared_out_bits[device], Fabric(device)};
      if (bound_.t < equally) is_open[network_.host_of[device]] = true;
    }
    if (std::find(is_open.begin(), is_open.end(), true) == is_open.end()) return;
    std::vector<TransportationProblem> problems = ProblemsOf(is_open);
    for (size_t h = 0; h < problems.size(); ++h) {
      if (budget_.SpentNow()) return;
      if (!problems[h].items.empty()) RaiseToSetOf(network_.hosts[h], problems[h]);
    }
  }

  // By host, what must be sent inside it: an item for each set of devices that hold something.
  std::vector<TransportationProblem> ProblemsOf(const std::vector<bool>& is_open) {
    std::vector<TransportationProblem> problems(network_.hosts.size());
    absl::flat_hash_map<Group, size_t> item_of;  // by holders: a host alone has them
    for (const Tape& tape : atoms_.tapes) {
      if (budget_.Spent()) return {};
      ForEachHostInNeed(tape, [&](absl::Span<const int32_t> near, absl::Span<const int32_t>) {
        if (near.empty() || !is_open[network_.host_of[near[0]]]) return;
        std::vector<TransportationProblem::Item>& items = problems[network_.host_of[near[0]]].items;
        const auto [found, is_new] =
            item_of.try_emplace(Group(near.begin(), near.end()), items.size());
        if (is_new) items.push_back({.bins = BinsOf(near)});
        items[found->second].demand += tape.bits;
      });
    }
    return problems;
  }

  // Devices by their place in the host.
  TransportationProblem::Bins BinsOf(absl::Span<const int32_t> devices) const {
    TransportationProblem::Bins bins;
    const int32_t first = network_.hosts[network_.host_of[devices[0]]].first_device;
    for (const int32_t device : devices) bins.push_back(device - first);
    return bins;
  }

  void RaiseToSetOf(const Network::HostNode& host, TransportationProblem& problem) {
    problem.capacity.assign(host.device_count, host.fabric_capacity);
    const TransportationSolution solution = BoundTransportation(problem, bound_.t, budget_);
    if (!(bound_.t < solution.t)) return;
    bound_.t = solution.t;
    bound_.certificate = {
        .kind = Kind::kLocalEgress, .bits = solution.t.num, .capacity = solution.t.den};
    for (const int32_t bin : solution.tight_bins) {
      bound_.certificate.devices.push_back(host.first_device + bin);
    }
  }

  static std::vector<int64_t> Zeros(const Network& network) {
    return std::vector<int64_t>(network.device_count(), 0);
  }

  const Atoms& atoms_;
  const Network& network_;
  Budget& budget_;
  MustMove must_{.in_bits = Zeros(network_),
                 .out_bits = Zeros(network_),
                 .local_in_bits = Zeros(network_),
                 .shared_out_bits = Zeros(network_)};
  std::vector<int32_t> in_need_;
  Bound bound_;
};

}  // namespace

Bound FabricBound(const Atoms& atoms, const Network& network, Budget& budget) {
  return FabricBounds(atoms, network, budget).Largest();
}

}  // namespace remesh::planner
