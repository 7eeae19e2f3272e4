// SPDX-License-Identifier: Apache-2.0
#include "planner/lower_bound.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace remesh {
namespace {

// Hosts, then domains: bits that each needs and nobody in it holds.
std::vector<int64_t> IngressBits(const DemandClasses& demand, const Network& network) {
  std::vector<int64_t> bits(network.hosts.size() + network.domains.size(), 0);
  std::vector<int64_t> seen(network.domains.size(), -1);  // last class that marked the domain
  int64_t mark = 0;
  for (const DemandClass& one : demand.classes) {
    for (int32_t host : one.holders) {
      for (int32_t d = network.hosts[host].parent; d >= 0; d = network.domains[d].parent) {
        seen[d] = mark;
      }
    }
    for (int32_t host : one.needers) {
      bits[host] += one.bits;
      for (int32_t d = network.hosts[host].parent; d >= 0; d = network.domains[d].parent) {
        if (seen[d] == mark) continue;
        seen[d] = mark;
        bits[network.hosts.size() + d] += one.bits;
      }
    }
    ++mark;
  }
  return bits;
}

}  // namespace

LowerBound BoundFromBelow(const Atoms& atoms, const DemandClasses& demand, const Network& network) {
  LowerBound bound;
  const std::vector<int64_t> bits = IngressBits(demand, network);
  const int32_t hosts = network.host_count();
  for (size_t i = 0; i < bits.size(); ++i) {
    const int32_t index = static_cast<int32_t>(i);
    const int64_t capacity =
        index < hosts ? network.hosts[i].capacity() : network.domains[index - hosts].ingress;
    if (bits[i] == 0) continue;
    const double seconds = static_cast<double>(bits[i]) / 8 / static_cast<double>(capacity);
    if (seconds <= bound.seconds) continue;
    bound.seconds = seconds;
    bound.certificate = absl::StrCat(
        index < hosts ? "host " : "domain ", index < hosts ? index : index - hosts, " needs ",
        (bits[i] + 7) / 8, " bytes that it does not hold, at ", capacity, " bytes per second");
  }
  bound.routing_seconds = bound.seconds;
  return bound;
}

}  // namespace remesh
