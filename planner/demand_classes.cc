// SPDX-License-Identifier: Apache-2.0
#include "planner/demand_classes.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace remesh {
namespace {

// Hosts of each group, each group looked at once.
class HostGroups {
 public:
  HostGroups(const Atoms& atoms, const Network& network) : hosts_(atoms.groups.size()) {
    for (size_t g = 0; g < hosts_.size(); ++g) {
      for (int32_t device : atoms.groups[g]) {
        const int32_t host = network.host_of[device];
        if (hosts_[g].empty() || hosts_[g].back() != host) hosts_[g].push_back(host);
      }
    }
  }

  const Group& operator[](int32_t group) const { return hosts_[group]; }

 private:
  std::vector<Group> hosts_;
};

}  // namespace

DemandClasses MakeDemandClasses(const Atoms& atoms, const Network& network) {
  const HostGroups hosts(atoms, network);
  DemandClasses result;
  result.class_of.assign(atoms.subs.size(), -1);
  absl::flat_hash_map<std::pair<Group, Group>, int32_t> class_of;
  for (size_t s = 0; s < atoms.subs.size(); ++s) {
    const Sub& sub = atoms.subs[s];
    const Group& holders = hosts[sub.holders];
    Group needers;
    std::set_difference(hosts[sub.needers].begin(), hosts[sub.needers].end(), holders.begin(),
                        holders.end(), std::back_inserter(needers));
    if (needers.empty() || sub.bits == 0) continue;
    const auto [entry, inserted] =
        class_of.try_emplace({holders, needers}, static_cast<int32_t>(result.classes.size()));
    if (inserted) {
      result.classes.push_back({.holders = holders, .needers = needers, .subs = {}, .bits = 0});
    }
    DemandClass& demand = result.classes[entry->second];
    demand.subs.push_back(static_cast<int32_t>(s));
    demand.bits += sub.bits;
    result.class_of[s] = entry->second;
  }
  return result;
}

}  // namespace remesh
