// SPDX-License-Identifier: Apache-2.0
#include "server/questions/new_workers.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
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

// Sorts them, and joins those that overlap.
void Join(std::vector<Ids>& named) {
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

// All device ids of the topology, in order.
std::vector<int64_t> DevicesOf(const v1::Topology& topology) {
  std::vector<int64_t> known;
  for (const v1::Host& host : topology.hosts()) {
    known.insert(known.end(), host.device_ids().begin(), host.device_ids().end());
  }
  if (!std::is_sorted(known.begin(), known.end())) std::sort(known.begin(), known.end());
  return known;
}

// Removes those of which `known` has every id.
void DropKnown(const std::vector<int64_t>& known, std::vector<Ids>& named) {
  std::erase_if(named, [&](const Ids& ids) {
    const auto begin = std::lower_bound(known.begin(), known.end(), ids.first);
    const auto end = std::upper_bound(begin, known.end(), ids.last);
    return static_cast<uint64_t>(end - begin) > static_cast<uint64_t>(ids.last - ids.first);
  });
}

// What the spec names and is not lost, joined.
std::vector<Ids> HeldIn(const v1::StateSpec& spec, const std::set<int64_t>& lost) {
  std::vector<Ids> named = NamedIn(spec);
  Join(named);
  std::vector<Ids> held;
  for (Ids ids : named) {
    bool more = true;
    const auto end = lost.upper_bound(ids.last);
    for (auto id = lost.lower_bound(ids.first); id != end; ++id) {
      if (ids.first < *id) held.push_back({ids.first, *id - 1});
      more = *id < ids.last;
      if (more) ids.first = *id + 1;
    }
    if (more) held.push_back(ids);
  }
  return held;
}

// Whether one of the joined `named` has the id.
bool Has(const std::vector<Ids>& named, int64_t id) {
  const auto after = std::upper_bound(named.begin(), named.end(), id,
                                      [](int64_t id, const Ids& ids) { return id < ids.first; });
  return after != named.begin() && id <= std::prev(after)->last;
}

// The ids of one list that the other has too, in the order of the first.
std::vector<int64_t> Shared(absl::Span<const int64_t> ids, absl::Span<const int64_t> others) {
  const absl::flat_hash_set<int64_t> other(others.begin(), others.end());
  std::vector<int64_t> shared;
  absl::c_copy_if(ids, std::back_inserter(shared), [&](int64_t id) { return other.contains(id); });
  return shared;
}

// Whether a worker has, in the same order, the devices of its host in the topology: all that
// `held` names, while others may have broken or come since.
bool NumbersAgree(const v1::Host& host, const Host& worker, const std::vector<Ids>& held) {
  const absl::Span<const int64_t> listed(host.device_ids());
  if (absl::c_equal(listed, worker.device_ids)) return true;
  const std::vector<int64_t> shared = Shared(listed, worker.device_ids);
  if (shared != Shared(worker.device_ids, listed)) return false;
  const auto is_held = [&](int64_t id) { return Has(held, id); };
  return absl::c_count_if(shared, is_held) == absl::c_count_if(listed, is_held);
}

// Whether the topology has the workers' device numbers, on all hosts that are registered.
bool NumbersAgree(const v1::Topology& topology, const Topology& workers,
                  const std::vector<Ids>& held) {
  absl::flat_hash_map<std::string_view, const Host*> known;
  for (const Host& host : workers.hosts) known[host.name] = &host;
  return absl::c_all_of(topology.hosts(), [&](const v1::Host& host) {
    const auto worker = known.find(host.name());
    return worker == known.end() || NumbersAgree(host, *worker->second, held);
  });
}

// Adds the workers that are wanted and not there, each with its racks. A worker with a device of
// a host that has gone is not there for as long as the topology has that host.
void AddWorkers(v1::Topology& topology, const Topology& workers,
                absl::FunctionRef<bool(const Host&)> wanted) {
  const std::vector<int64_t> taken = DevicesOf(topology);
  const auto is_taken = [&](int64_t id) { return absl::c_binary_search(taken, id); };
  std::set<std::string> present;
  for (const v1::Host& host : topology.hosts()) present.insert(host.name());
  for (const v1::Domain& domain : topology.domains()) present.insert(domain.name());
  Topology more;
  more.domains = workers.domains;
  for (const Host& host : workers.hosts) {
    if (present.contains(host.name) || !wanted(host)) continue;
    if (absl::c_none_of(host.device_ids, is_taken)) more.hosts.push_back(host);
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

void AddNamedWorkers(v1::StateSpec& spec, const v1::StateSpec& source,
                     const std::set<int64_t>& lost, const Topology* workers) {
  if (workers == nullptr) return;
  std::vector<Ids> named = NamedIn(spec);
  DropKnown(DevicesOf(spec.topology()), named);
  if (named.empty()) return;
  Join(named);
  if (!NumbersAgree(spec.topology(), *workers, HeldIn(source, lost))) return;
  const auto is_named = [&](int64_t id) { return Has(named, id); };
  AddWorkers(*spec.mutable_topology(), *workers,
             [&](const Host& host) { return absl::c_any_of(host.device_ids, is_named); });
}

void AddAllWorkers(v1::StateSpec& spec, const Topology* workers) {
  if (workers == nullptr || !NumbersAgree(spec.topology(), *workers, HeldIn(spec, {}))) return;
  AddWorkers(*spec.mutable_topology(), *workers, [](const Host&) { return true; });
}

}  // namespace remesh::server
