// SPDX-License-Identifier: Apache-2.0
#include "server/questions/new_workers.h"

#include <google/protobuf/repeated_ptr_field.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
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
#include "planner/sharding/limits.h"
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

using IdsVisitor = absl::FunctionRef<void(Ids)>;

// What does not fit is refused when the spec is read.
void VisitIds(const v1::DeviceList& list, IdsVisitor visit) {
  if (list.ids_size() <= planner::kPositionsMax) {
    for (const int64_t id : list.ids()) visit({id, id});
  }
  const v1::DeviceList::Range& range = list.range();
  int64_t last = 0;
  if (range.count() < 1 || __builtin_add_overflow(range.start(), range.count() - 1, &last)) return;
  visit({range.start(), last});
}

void VisitIds(const v1::Sharding& sharding, IdsVisitor visit) {
  VisitIds(sharding.devices(), visit);
  for (const v1::DeviceBoxes& device : sharding.boxes().devices()) {
    visit({device.device(), device.device()});
  }
}

// Visits the device ids that the arrays of a spec are on, each list and sharding once. What no
// array refers to says nothing of where the state is: a caller may send the lists of all its jobs.
class UsedIds {
 public:
  UsedIds(const v1::StateSpec& spec, IdsVisitor visit) : spec_(spec), visit_(visit) {}

  void Visit() {
    for (const v1::StateArray& array : spec_.arrays()) Visit(array.sharding());
  }

 private:
  void Visit(const v1::Sharding& sharding) {
    if (!sharding.has_ref()) {
      VisitIds(sharding, visit_);
      if (sharding.devices().has_ref()) VisitList(sharding.devices().ref());
    } else if (shardings_.insert(sharding.ref()).second) {
      const auto named = spec_.shardings().find(sharding.ref());
      if (named != spec_.shardings().end()) Visit(named->second);
    }
  }

  void VisitList(const std::string& key) {
    if (!lists_.insert(key).second) return;
    const auto named = spec_.device_lists().find(key);
    if (named != spec_.device_lists().end()) VisitIds(named->second, visit_);
  }

  const v1::StateSpec& spec_;
  const IdsVisitor visit_;
  absl::flat_hash_set<std::string> shardings_, lists_;  // keys that were visited
};

void VisitIds(const v1::StateSpec& spec, IdsVisitor visit) { UsedIds(spec, visit).Visit(); }

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

// Whether one of the joined `named` has the id.
bool Has(const std::vector<Ids>& named, int64_t id) {
  const auto after = std::upper_bound(named.begin(), named.end(), id,
                                      [](int64_t id, const Ids& ids) { return id < ids.first; });
  return after != named.begin() && id <= std::prev(after)->last;
}

// What a spec names of some hosts' devices.
struct Named {
  std::vector<bool> hosts;  // by host, whether a device of it is named
  bool others = false;      // whether a device of no host is named
};

// The devices of some hosts, with the index of each one's host.
class DeviceHosts {
 public:
  explicit DeviceHosts(const v1::Topology& topology) : hosts_(topology.hosts_size()) {
    for (int h = 0; h < topology.hosts_size(); ++h) Add(topology.hosts(h).device_ids(), h);
    Sort();
  }
  explicit DeviceHosts(const Topology& topology) : hosts_(topology.hosts.size()) {
    for (size_t h = 0; h < hosts_; ++h) Add(topology.hosts[h].device_ids, static_cast<int>(h));
    Sort();
  }

  bool HasAll(Ids ids) const {
    const auto begin = FirstFrom(ids.first);
    const auto end = std::partition_point(
        begin, devices_.end(), [&](const Device& device) { return device.id <= ids.last; });
    return static_cast<uint64_t>(end - begin) > static_cast<uint64_t>(ids.last - ids.first);
  }

  // Of many single ids, none takes memory.
  Named NamedBy(const v1::StateSpec& spec) const {
    Named named{.hosts = std::vector<bool>(hosts_)};
    std::vector<Ids> ranges;
    VisitIds(spec, [&](Ids ids) {
      if (ids.first < ids.last) {
        ranges.push_back(ids);
        named.others = named.others || !HasAll(ids);
        return;
      }
      const auto device = FirstFrom(ids.first);
      if (device != devices_.end() && device->id == ids.first) {
        named.hosts[device->host] = true;
      } else {
        named.others = true;
      }
    });
    Join(ranges);
    for (const Device& device : devices_) {
      if (Has(ranges, device.id)) named.hosts[device.host] = true;
    }
    return named;
  }

 private:
  struct Device {
    int64_t id = 0;
    int host = 0;
  };

  void Add(absl::Span<const int64_t> ids, int host) {
    for (const int64_t id : ids) devices_.push_back({id, host});
  }
  void Sort() {
    const auto by_id = [](const Device& a, const Device& b) { return a.id < b.id; };
    if (!absl::c_is_sorted(devices_, by_id)) absl::c_sort(devices_, by_id);
  }
  std::vector<Device>::const_iterator FirstFrom(int64_t id) const {
    return std::partition_point(devices_.begin(), devices_.end(),
                                [id](const Device& device) { return device.id < id; });
  }

  size_t hosts_ = 0;
  std::vector<Device> devices_;  // by id
};

// All device ids that the spec names, joined.
std::vector<Ids> NamedIn(const v1::StateSpec& spec) {
  std::vector<Ids> named;
  VisitIds(spec, [&](Ids ids) { named.push_back(ids); });
  Join(named);
  return named;
}

// The worker of that name, or null.
const Host* FindWorker(const Topology& workers, std::string_view name) {
  const auto found = std::partition_point(workers.hosts.begin(), workers.hosts.end(),
                                          [name](const Host& host) { return host.name < name; });
  return found != workers.hosts.end() && found->name == name ? &*found : nullptr;
}

// Whether the host is a worker with these very devices.
bool IsWorker(const v1::Host& host, const Topology& workers) {
  const Host* worker = FindWorker(workers, host.name());
  return worker != nullptr && absl::c_equal(host.device_ids(), worker->device_ids);
}

// What the spec names and is not lost, joined.
std::vector<Ids> HeldIn(const v1::StateSpec& spec, const std::set<int64_t>& lost) {
  std::vector<Ids> held;
  for (Ids ids : NamedIn(spec)) {
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

// Whether the topology has the workers' device numbers, on all hosts that stay and are registered.
bool NumbersAgree(const v1::Topology& topology, const std::vector<bool>& gone,
                  const Topology& workers, const std::vector<Ids>& held) {
  for (int h = 0; h < topology.hosts_size(); ++h) {
    if (gone[h]) continue;
    const Host* worker = FindWorker(workers, topology.hosts(h).name());
    if (worker != nullptr && !NumbersAgree(topology.hosts(h), *worker, held)) return false;
  }
  return true;
}

// Removes the domains above no host.
void RemoveIdleDomains(v1::Topology& topology) {
  absl::flat_hash_map<std::string_view, std::string_view> parent_of;
  for (const v1::Domain& domain : topology.domains()) parent_of[domain.name()] = domain.parent();
  absl::flat_hash_set<std::string> above;
  for (const v1::Host& host : topology.hosts()) {
    std::string_view domain = host.parent();
    while (!domain.empty() && above.emplace(domain).second) domain = parent_of.at(domain);
  }
  google::protobuf::RepeatedPtrField<v1::Domain> kept;
  for (v1::Domain& domain : *topology.mutable_domains()) {
    if (above.contains(domain.name())) kept.Add(std::move(domain));
  }
  topology.mutable_domains()->Swap(&kept);
}

// By host of the topology, whether it leaves: if it is no longer a worker with these devices, and
// the source is not on it, unless the spec names its devices and no worker has one now. Else a
// state that moves on for months would keep every host that it was ever on, with ids and names.
std::vector<bool> GoneHosts(const v1::Topology& topology, const Named& source, const Named& spec,
                            const Topology& workers) {
  std::vector<bool> gone(topology.hosts_size());
  std::optional<DeviceHosts> of_workers;  // seldom needed
  for (int h = 0; h < topology.hosts_size(); ++h) {
    const v1::Host& host = topology.hosts(h);
    if (source.hosts[h] || IsWorker(host, workers)) continue;
    if (!of_workers) of_workers.emplace(workers);
    const auto is_taken = [&](int64_t id) { return of_workers->HasAll({id, id}); };
    gone[h] = !spec.hosts[h] || absl::c_any_of(host.device_ids(), is_taken);
  }
  return gone;
}

// With the domains above no other host, if any host leaves.
void RemoveHosts(const std::vector<bool>& gone, v1::Topology& topology) {
  if (!absl::c_linear_search(gone, true)) return;
  google::protobuf::RepeatedPtrField<v1::Host> kept;
  for (int h = 0; h < topology.hosts_size(); ++h) {
    if (!gone[h]) kept.Add(std::move(*topology.mutable_hosts(h)));
  }
  topology.mutable_hosts()->Swap(&kept);
  RemoveIdleDomains(topology);
}

// Whether the spec names a device that its topology lacks, or, where the topology is the workers',
// one of a host that has gone: another worker may have it now.
bool NamesOthers(const Named& named, const std::vector<bool>& gone) {
  if (named.others) return true;
  for (size_t h = 0; h < gone.size(); ++h) {
    if (gone[h] && named.hosts[h]) return true;
  }
  return false;
}

// Adds the workers that are wanted and not there, each with its racks. A worker with a device of
// another host is not there for as long as the topology has that host.
void AddWorkers(v1::Topology& topology, const Topology& workers,
                absl::FunctionRef<bool(int)> wanted) {
  const DeviceHosts taken(topology);
  const auto is_taken = [&](int64_t id) { return taken.HasAll({id, id}); };
  std::set<std::string> present;
  for (const v1::Host& host : topology.hosts()) present.insert(host.name());
  for (const v1::Domain& domain : topology.domains()) present.insert(domain.name());
  Topology more;
  more.domains = workers.domains;
  for (size_t h = 0; h < workers.hosts.size(); ++h) {
    const Host& host = workers.hosts[h];
    if (present.contains(host.name) || !wanted(static_cast<int>(h))) continue;
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
  v1::Topology& topology = *spec.mutable_topology();
  const DeviceHosts devices(topology);
  const Named named = devices.NamedBy(spec);
  std::vector<bool> gone(topology.hosts_size());
  if (topology.from_workers()) {
    gone = GoneHosts(topology, devices.NamedBy(source), named, *workers);
  }
  if (!NamesOthers(named, gone)) return;
  if (!NumbersAgree(topology, gone, *workers, HeldIn(source, lost))) return;
  RemoveHosts(gone, topology);
  const std::vector<bool> wanted = DeviceHosts(*workers).NamedBy(spec).hosts;
  AddWorkers(topology, *workers, [&](int host) { return wanted[host]; });
}

void AddAllWorkers(v1::StateSpec& spec, const Topology* workers) {
  if (workers == nullptr) return;
  v1::Topology& topology = *spec.mutable_topology();
  std::vector<bool> gone(topology.hosts_size());
  if (topology.from_workers()) {
    const Named named = DeviceHosts(topology).NamedBy(spec);
    gone = GoneHosts(topology, named, named, *workers);
  }
  if (!NumbersAgree(topology, gone, *workers, HeldIn(spec, {}))) return;
  RemoveHosts(gone, topology);
  AddWorkers(topology, *workers, [](int) { return true; });
}

bool IsFromWorkers(const v1::Topology& topology, const v1::Topology& source,
                   const Topology* workers) {
  if (!source.from_workers()) return false;
  absl::flat_hash_map<std::string_view, const v1::Host*> known;
  for (const v1::Host& host : source.hosts()) known[host.name()] = &host;
  return absl::c_all_of(topology.hosts(), [&](const v1::Host& host) {
    const auto found = known.find(host.name());
    const bool is_known =
        found != known.end() && absl::c_equal(host.device_ids(), found->second->device_ids());
    return is_known || (workers != nullptr && IsWorker(host, *workers));
  });
}

}  // namespace remesh::server
