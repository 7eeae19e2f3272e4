// SPDX-License-Identifier: Apache-2.0
#include "planner/report/scope.h"

#include <set>
#include <vector>

#include "planner/network/network.h"

namespace remesh::planner {
namespace {

// By device, or by host: whether a side names it.
using Named = std::vector<bool>;

Scope::Sides Count(const Named& source, const Named& target) {
  Scope::Sides sides;
  for (size_t i = 0; i < source.size(); ++i) {
    sides.source += source[i];
    sides.target += target[i];
    sides.both += source[i] && target[i];
  }
  return sides;
}

// Walks each list once, since arrays share lists.
Named DevicesOf(const CanonicalRequest& request, Placement ArraySpec::*side, size_t device_count) {
  std::set<const DeviceList*> seen;
  Named named(device_count, false);
  for (const ArraySpec& array : request.request.arrays) {
    const DeviceList& devices = *(array.*side).devices;
    if (!seen.insert(&devices).second) continue;
    for (const int64_t device : devices) named[device] = true;
  }
  return named;
}

Named HostsOf(const Named& devices, const Network& network) {
  Named hosts(network.hosts.size(), false);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i]) hosts[network.host_of[i]] = true;
  }
  return hosts;
}

int64_t BytesOf(const ArraySpec& array) {
  int64_t elements = 1;
  for (const int64_t extent : array.shape) elements *= extent;
  return (elements * BitWidth(array.element_type) + 7) / 8;
}

}  // namespace

Scope ScopeOf(const CanonicalRequest& request) {
  const Network network = MakeNetwork(request.request);
  const Named source = DevicesOf(request, &ArraySpec::source, network.host_of.size());
  const Named target = DevicesOf(request, &ArraySpec::target, network.host_of.size());
  Scope scope{.arrays = static_cast<int64_t>(request.request.arrays.size()),
              .devices = Count(source, target),
              .hosts = Count(HostsOf(source, network), HostsOf(target, network))};
  for (const ArraySpec& array : request.request.arrays) scope.bytes += BytesOf(array);
  return scope;
}

}  // namespace remesh::planner
