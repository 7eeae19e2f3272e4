// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/fabric_bound.h"

#include <algorithm>
#include <vector>

namespace remesh::planner {
namespace {

// What every device must move in any plan.
struct MustMove {
  std::vector<int64_t> in_bits;
  std::vector<int64_t> out_bits;
};

void AddTape(const Tape& tape, const Atoms& atoms, MustMove& must) {
  const Group& holders = atoms.groups[tape.holders];
  const Group& needers = atoms.groups[tape.needers];
  for (const int32_t device : needers) {
    const bool holds = std::binary_search(holders.begin(), holders.end(), device);
    if (!holds) must.in_bits[device] += tape.bits;
  }
  if (holders.size() > 1) return;
  const bool leaves = std::any_of(needers.begin(), needers.end(),
                                  [&](int32_t device) { return device != holders[0]; });
  if (leaves) must.out_bits[holders[0]] += tape.bits;
}

int64_t CapacityOf(int32_t device, const Network& network) {
  const Network::HostNode& host = network.hosts[network.host_of[device]];
  return host.fabric_capacity + (network.nic_of[device] >= 0 ? host.nic_capacity : 0);
}

}  // namespace

Bound FabricBound(const Atoms& atoms, const Network& network, Budget& budget) {
  MustMove must{.in_bits = std::vector<int64_t>(network.device_count(), 0),
                .out_bits = std::vector<int64_t>(network.device_count(), 0)};
  for (const Tape& tape : atoms.tapes) {
    if (budget.Spent()) return {};
    AddTape(tape, atoms, must);
  }
  Bound bound;
  const auto raise = [&](int32_t device, int64_t bits, Certificate::Kind kind) {
    const Rational t{bits, CapacityOf(device, network)};
    if (!(bound.t < t)) return;
    bound.t = t;
    bound.certificate = {.kind = kind, .devices = {device}, .bits = t.num, .capacity = t.den};
  };
  for (int32_t device = 0; device < network.device_count(); ++device) {
    raise(device, must.in_bits[device], Certificate::Kind::kIngress);
    raise(device, must.out_bits[device], Certificate::Kind::kEgress);
  }
  return bound;
}

}  // namespace remesh::planner
