// SPDX-License-Identifier: Apache-2.0
#include "planner/report/scope.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/network/network.h"
#include "planner/report/units.h"

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

// "1,024".
std::string WithCommas(int64_t count) {
  std::string text = absl::StrCat(count);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(at, ",");
  return text;
}

// "1 array", "1,024 devices".
std::string Plural(int64_t count, const char* one) {
  return absl::StrCat(WithCommas(count), " ", one, count == 1 ? "" : "s");
}

}  // namespace

std::string TitleOf(const Scope& scope, std::string_view label) {
  const auto [source, target, both] = scope.devices;
  const std::string sizes = absl::StrCat(Plural(scope.arrays, "array"), ", ",
                                         BytesText(static_cast<double>(scope.bytes)));
  const bool same = source == target && both == source;
  const std::string move = same ? absl::StrCat("resharded over ", Plural(source, "device"))
                                : absl::StrCat(WithCommas(source), " → ", Plural(target, "device"));
  return absl::StrCat(label.empty() ? sizes : std::string(label), ": ", move);
}

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
