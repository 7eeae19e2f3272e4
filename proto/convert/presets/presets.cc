// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/presets/presets.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/nearest.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/text/text.h"

namespace remesh::proto {
namespace {

constexpr int64_t kHostsMax = 65536;

v1::TopologyPresets ReadPresets() {
  std::vector<v1::TopologyPreset> presets;
  for (const char* text : PresetTexts()) {
    REMESH_CHECK(ParseText(text, presets.emplace_back()).ok());
  }
  std::sort(presets.begin(), presets.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  v1::TopologyPresets all;
  for (v1::TopologyPreset& preset : presets) *all.add_presets() = std::move(preset);
  return all;
}

double NicBytesPerSecond(const v1::TopologyPreset& preset) {
  return preset.nics() * preset.nic_bytes_per_second();
}

absl::Status CheckCluster(const Cluster& cluster) {
  if (cluster.hosts < 1 || cluster.hosts > kHostsMax) {
    return InvalidField("hosts", absl::StrCat(cluster.hosts), "must be 1 to 65536");
  }
  if (cluster.first_device < 0 || cluster.first_device > INT32_MAX) {
    return InvalidField("first_device", absl::StrCat(cluster.first_device),
                        "must be 0 to 2147483647");
  }
  if (!std::isfinite(cluster.oversubscription) || cluster.oversubscription <= 0) {
    return InvalidField("oversubscription", absl::StrCat(cluster.oversubscription),
                        "must be finite and > 0");
  }
  return absl::OkStatus();
}

// A child of a rack: a host, or a group of hosts.
struct Unit {
  std::string* parent = nullptr;
  double bytes_per_second = 0;
};

v1::Domain& AddDomain(const std::string& name, double bytes_per_second, v1::Topology& topology) {
  v1::Domain& domain = *topology.add_domains();
  domain.set_name(name);
  domain.set_egress_bytes_per_second(bytes_per_second);
  domain.set_ingress_bytes_per_second(bytes_per_second);
  return domain;
}

// Adds domains for the preset's groups. Returns the children that racks will have.
std::vector<Unit> AddGroups(const v1::TopologyPreset& preset, v1::Topology& topology) {
  std::vector<Unit> units;
  if (!preset.has_group()) {
    for (v1::Host& host : *topology.mutable_hosts()) {
      units.push_back({host.mutable_parent(), NicBytesPerSecond(preset)});
    }
    return units;
  }
  const v1::TopologyPreset::Group& group = preset.group();
  for (int first = 0; first < topology.hosts_size(); first += group.hosts()) {
    const int hosts = std::min(group.hosts(), topology.hosts_size() - first);
    const double uplink = hosts * group.bytes_per_second_per_host();
    const std::string name = absl::StrCat(group.name(), "-", topology.domains_size());
    units.push_back({AddDomain(name, uplink, topology).mutable_parent(), uplink});
    for (int h = first; h < first + hosts; ++h) topology.mutable_hosts(h)->set_parent(name);
  }
  return units;
}

}  // namespace

const v1::TopologyPresets& Presets() {
  static const auto* const presets = new v1::TopologyPresets(ReadPresets());
  return *presets;
}

absl::StatusOr<const v1::TopologyPreset*> FindPreset(const std::string& name,
                                                     std::string_view field) {
  std::vector<std::string> names;
  for (const v1::TopologyPreset& preset : Presets().presets()) {
    if (preset.name() == name) return &preset;
    names.push_back(preset.name());
  }
  return InvalidField(
      field, name,
      absl::StrCat("must be one of ", absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

absl::Status FillFromPreset(v1::Host& host) {
  if (host.preset().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const v1::TopologyPreset* preset, FindPreset(host.preset()));
  if (host.nics() == 0) host.set_nics(preset->nics());
  if (host.nic_bytes_per_second() == 0) {
    host.set_nic_bytes_per_second(preset->nic_bytes_per_second());
  }
  if (host.fabric_bytes_per_second() == 0) {
    host.set_fabric_bytes_per_second(preset->fabric_bytes_per_second());
  }
  planner::MessageCosts costs = kNoMessageCosts;
  OverrideMessageCosts(*preset, costs);
  OverrideMessageCosts(host, costs);
  SetMessageCosts(costs, host);
  return absl::OkStatus();
}

absl::StatusOr<v1::Topology> MakeTopology(const Cluster& cluster) {
  ASSIGN_OR_RETURN(const v1::TopologyPreset* preset, FindPreset(cluster.preset));
  RETURN_IF_ERROR(CheckCluster(cluster));
  v1::Topology topology;
  int64_t device = cluster.first_device;
  for (int64_t h = 0; h < cluster.hosts; ++h) {
    v1::Host& host = *topology.add_hosts();
    host.set_name(absl::StrCat(cluster.host_prefix, h));
    for (int i = 0; i < preset->devices(); ++i) host.add_device_ids(device++);
    host.set_preset(preset->name());
    RETURN_IF_ERROR(FillFromPreset(host));
    host.clear_preset();
  }
  const std::vector<Unit> units = AddGroups(*preset, topology);
  const int64_t count = static_cast<int64_t>(units.size());
  if (cluster.racks < 0 || cluster.racks > count) {
    return InvalidField(
        "racks", absl::StrCat(cluster.racks),
        absl::StrCat("must be 0 to ", count, ", for each rack needs a host or group"));
  }
  for (int64_t r = 0; r < cluster.racks; ++r) {
    const std::string name = absl::StrCat("rack-", r);
    double below = 0;
    for (int64_t u = r * count / cluster.racks; u < (r + 1) * count / cluster.racks; ++u) {
      *units[u].parent = name;
      below += units[u].bytes_per_second;
    }
    AddDomain(name, below / cluster.oversubscription, topology);
  }
  return topology;
}

}  // namespace remesh::proto
