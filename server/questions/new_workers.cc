// SPDX-License-Identifier: Apache-2.0
#include "server/questions/new_workers.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "proto/convert/plan_proto.h"

namespace remesh::server {

using planner::Host;
using planner::Topology;

namespace {

// Device ids from first to last.
struct Ids {
  int64_t first = 0;
  int64_t last = 0;
};

void AddIds(const v1::DeviceList& list, std::vector<Ids>& named) {
  for (const int64_t id : list.ids()) named.push_back({id, id});
  // What does not fit is refused when the spec is read.
  const v1::DeviceList::Range& range = list.range();
  int64_t last = 0;
  if (range.count() < 1 || __builtin_add_overflow(range.start(), range.count() - 1, &last)) return;
  named.push_back({range.start(), last});
}

void AddIds(const v1::Sharding& sharding, std::vector<Ids>& named) {
  AddIds(sharding.devices(), named);
  for (const v1::DeviceBoxes& device : sharding.boxes().devices()) {
    named.push_back({device.device(), device.device()});
  }
}

// All device ids that the spec names.
std::vector<Ids> NamedIn(const v1::StateSpec& spec) {
  std::vector<Ids> named;
  for (const auto& [key, list] : spec.device_lists()) AddIds(list, named);
  for (const auto& [key, sharding] : spec.shardings()) AddIds(sharding, named);
  for (const v1::StateArray& array : spec.arrays()) AddIds(array.sharding(), named);
  return named;
}

// Removes the ids that the topology has, sorts the others, and joins those that overlap.
void DropKnown(const v1::Topology& topology, std::vector<Ids>& named) {
  std::vector<int64_t> known;
  for (const v1::Host& host : topology.hosts()) {
    known.insert(known.end(), host.device_ids().begin(), host.device_ids().end());
  }
  if (!std::is_sorted(known.begin(), known.end())) std::sort(known.begin(), known.end());
  std::erase_if(named, [&](const Ids& ids) {
    const auto begin = std::lower_bound(known.begin(), known.end(), ids.first);
    const auto end = std::upper_bound(begin, known.end(), ids.last);
    return static_cast<uint64_t>(end - begin) > static_cast<uint64_t>(ids.last - ids.first);
  });
  std::sort(named.begin(), named.end(),
            [](const Ids& a, const Ids& b) { return a.first < b.first; });
  std::vector<Ids> joined;
  for (const Ids& ids : named) {
    if (joined.empty() || joined.back().last < ids.first) {
      joined.push_back(ids);
    } else {
      joined.back().last = std::max(joined.back().last, ids.last);
    }
  }
  named = std::move(joined);
}

// Whether one of the sorted, disjoint `named` has a device of the host.
bool HasOneOf(const Host& host, const std::vector<Ids>& named) {
  return std::any_of(host.device_ids.begin(), host.device_ids.end(), [&](int64_t id) {
    const auto after = std::upper_bound(named.begin(), named.end(), id,
                                        [](int64_t id, const Ids& ids) { return id < ids.first; });
    return after != named.begin() && id <= std::prev(after)->last;
  });
}

// Whether a host of the topology is registered with other devices.
bool NumbersDiffer(const v1::Topology& topology, const Topology& workers) {
  absl::flat_hash_map<std::string, const Host*> known;
  for (const Host& host : workers.hosts) known[host.name] = &host;
  return std::any_of(topology.hosts().begin(), topology.hosts().end(), [&](const v1::Host& host) {
    const auto worker = known.find(host.name());
    return worker != known.end() &&
           !std::equal(host.device_ids().begin(), host.device_ids().end(),
                       worker->second->device_ids.begin(), worker->second->device_ids.end());
  });
}

// Adds the workers that are wanted and not there, each with its racks.
void AddWorkers(v1::Topology& topology, const Topology& workers,
                absl::FunctionRef<bool(const Host&)> wanted) {
  if (NumbersDiffer(topology, workers)) return;
  std::set<std::string> present;
  for (const v1::Host& host : topology.hosts()) present.insert(host.name());
  for (const v1::Domain& domain : topology.domains()) present.insert(domain.name());
  Topology more;
  more.domains = workers.domains;
  for (const Host& host : workers.hosts) {
    if (!present.contains(host.name) && wanted(host)) more.hosts.push_back(host);
  }
  const v1::Topology added = proto::ToProto(more);
  absl::flat_hash_map<std::string, const v1::Domain*> domains;
  for (const v1::Domain& domain : added.domains()) domains[domain.name()] = &domain;
  for (const v1::Host& host : added.hosts()) {
    *topology.add_hosts() = host;
    for (std::string above = host.parent(); !above.empty() && present.insert(above).second;) {
      *topology.add_domains() = *domains.at(above);
      above = topology.domains().rbegin()->parent();
    }
  }
}

}  // namespace

void AddNamedWorkers(v1::StateSpec& spec, const Topology* workers) {
  if (workers == nullptr) return;
  std::vector<Ids> named = NamedIn(spec);
  DropKnown(spec.topology(), named);
  if (named.empty()) return;
  AddWorkers(*spec.mutable_topology(), *workers,
             [&](const Host& host) { return HasOneOf(host, named); });
}

void AddAllWorkers(v1::Topology& topology, const Topology* workers) {
  if (workers == nullptr) return;
  AddWorkers(topology, *workers, [](const Host&) { return true; });
}

}  // namespace remesh::server
