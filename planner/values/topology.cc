// SPDX-License-Identifier: Apache-2.0
#include "planner/values/topology.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"

namespace remesh::planner {
namespace {

absl::Status CheckCapacity(const char* field, double bytes_per_second) {
  if (std::isfinite(bytes_per_second) && bytes_per_second > 0) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(bytes_per_second), "must be finite and > 0");
}

absl::Status CheckName(const std::string& name, absl::flat_hash_set<std::string_view>& names) {
  if (name.empty()) return InvalidField("name", name, "must not be empty");
  if (!names.insert(name).second)
    return InvalidField("name", name, "is used more than once: names must be unique");
  return absl::OkStatus();
}

using OwnerOf = absl::flat_hash_map<int64_t, const Host*>;

absl::Status CheckDevice(int64_t id, const Host& host, OwnerOf& owner_of) {
  if (id < 0) return InvalidField("", absl::StrCat(id), "must be >= 0");
  const auto [owner, inserted] = owner_of.try_emplace(id, &host);
  if (inserted) return absl::OkStatus();
  return InvalidField("", absl::StrCat(id),
                      absl::StrCat("is also listed for host ", owner->second->name,
                                   ": a device can be on only one host"));
}

absl::Status CheckHost(const Host& host, absl::flat_hash_set<std::string_view>& names,
                       OwnerOf& owner_of) {
  Problems problems;
  RETURN_IF_ERROR(problems.Note(CheckName(host.name, names)));
  if (host.device_ids.empty())
    RETURN_IF_ERROR(problems.Note(InvalidField("device_ids", "", "must name a device")));
  for (size_t i = 0; i < host.device_ids.size(); ++i) {
    RETURN_IF_ERROR(
        problems.Note(AtIndex("device_ids", i, CheckDevice(host.device_ids[i], host, owner_of))));
  }
  if (host.nics < 1)
    RETURN_IF_ERROR(problems.Note(InvalidField("nics", absl::StrCat(host.nics), "must be >= 1")));
  RETURN_IF_ERROR(problems.Note(CheckCapacity("nic_bytes_per_second", host.nic_bytes_per_second)));
  RETURN_IF_ERROR(
      problems.Note(CheckCapacity("fabric_bytes_per_second", host.fabric_bytes_per_second)));
  RETURN_IF_ERROR(problems.Note(ValidateMessageCosts(host.message_costs)));
  return problems.ToStatus();
}

absl::Status CheckDomain(const Domain& domain, absl::flat_hash_set<std::string_view>& names) {
  Problems problems;
  RETURN_IF_ERROR(problems.Note(CheckName(domain.name, names)));
  RETURN_IF_ERROR(
      problems.Note(CheckCapacity("egress_bytes_per_second", domain.egress_bytes_per_second)));
  RETURN_IF_ERROR(
      problems.Note(CheckCapacity("ingress_bytes_per_second", domain.ingress_bytes_per_second)));
  return problems.ToStatus();
}

using DomainIndex = absl::flat_hash_map<std::string, size_t>;

absl::Status CheckParent(const std::string& parent, const DomainIndex& index_of) {
  if (parent.empty() || index_of.contains(parent)) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& [name, index] : index_of) names.push_back(name);
  std::sort(names.begin(), names.end());
  return InvalidField("parent", parent,
                      absl::StrCat("must be empty, or the name of an entry of topology.domains",
                                   KnownNames(parent, names)));
}

// Walks up from every domain. A walk that meets a domain of its own has found a cycle. Each domain
// is visited once.
absl::Status CheckAcyclic(const std::vector<Domain>& domains, const DomainIndex& index_of) {
  std::vector<size_t> walk_of(domains.size(), 0);
  for (size_t i = 0; i < domains.size(); ++i) {
    size_t at = i;
    while (walk_of[at] == 0) {
      walk_of[at] = i + 1;
      if (domains[at].parent.empty()) break;
      at = index_of.at(domains[at].parent);
      if (walk_of[at] == i + 1) {
        return InvalidField(absl::StrCat("domains[", at, "].parent"), domains[at].parent,
                            "must not make a cycle");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateMessageCosts(const MessageCosts& costs) {
  for (const auto& [field, seconds] : {std::pair{"nic_message_seconds", costs.nic_message_seconds},
                                       {"fabric_message_seconds", costs.fabric_message_seconds},
                                       {"post_seconds", costs.post_seconds}}) {
    if (seconds >= 0 && seconds <= kMessageSecondsMax) continue;
    return InvalidField(field, absl::StrCat(seconds),
                        absl::StrCat("must be in [0, ", kMessageSecondsMax, "]"));
  }
  if (costs.posting_threads >= 1 && costs.posting_threads <= kPostingThreadsMax) {
    return absl::OkStatus();
  }
  return InvalidField("posting_threads", absl::StrCat(costs.posting_threads),
                      absl::StrCat("must be in [1, ", kPostingThreadsMax, "]"));
}

int64_t NicCapacity(const Host& host) {
  const double nics = std::min<double>(host.nics, static_cast<double>(host.device_ids.size()));
  const double rate = std::round(std::clamp(host.nic_bytes_per_second, 1.0, kCapacityMax));
  return static_cast<int64_t>(std::min(nics * rate, 2 * kCapacitySumMax));
}

absl::Status ValidateTopology(const Topology& topology) {
  if (topology.hosts.empty()) return InvalidField("hosts", "", "must name a host");
  absl::flat_hash_set<std::string_view> domain_names;
  DomainIndex index_of;
  Problems problems;
  for (size_t i = 0; i < topology.domains.size(); ++i) {
    RETURN_IF_ERROR(
        problems.Note(AtIndex("domains", i, CheckDomain(topology.domains[i], domain_names))));
    index_of[topology.domains[i].name] = i;
  }
  for (size_t i = 0; i < topology.domains.size(); ++i) {
    RETURN_IF_ERROR(
        problems.Note(AtIndex("domains", i, CheckParent(topology.domains[i].parent, index_of))));
  }
  if (problems.empty()) RETURN_IF_ERROR(problems.Note(CheckAcyclic(topology.domains, index_of)));
  absl::flat_hash_set<std::string_view> host_names;
  host_names.reserve(topology.hosts.size());
  OwnerOf owner_of;
  owner_of.reserve(topology.hosts.size() * topology.hosts.front().device_ids.size());
  int64_t capacity = 0;
  for (size_t i = 0; i < topology.hosts.size(); ++i) {
    const Host& host = topology.hosts[i];
    RETURN_IF_ERROR(problems.Note(AtIndex("hosts", i, CheckHost(host, host_names, owner_of))));
    RETURN_IF_ERROR(problems.Note(AtIndex("hosts", i, CheckParent(host.parent, index_of))));
    if (!problems.empty()) continue;
    capacity += NicCapacity(host);
    if (capacity > static_cast<int64_t>(kCapacitySumMax)) {
      return InvalidField(absl::StrCat("hosts[", i, "].nic_bytes_per_second"),
                          absl::StrCat(host.nic_bytes_per_second),
                          "brings the NICs of all hosts above 2^60 bytes per second");
    }
  }
  return problems.ToStatus();
}

}  // namespace remesh::planner
