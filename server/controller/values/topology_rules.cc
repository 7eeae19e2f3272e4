// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/topology_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/convert/plan_spec.h"
#include "proto/convert/presets/message_costs.h"
#include "proto/convert/presets/presets.h"

namespace remesh::server {

using planner::Host;

namespace {

// Checks one rule, which may leave capacities at 0.
absl::Status CheckRule(const v1::TopologyRules::HostRule& rule) {
  if (rule.match().empty()) return InvalidField("match", "", "must be a pattern of host names");
  if (!rule.preset().empty()) RETURN_IF_ERROR(proto::FindPreset(rule.preset()).status());
  if (rule.nics() < 0) return InvalidField("nics", absl::StrCat(rule.nics()), "must be >= 0");
  for (const auto& [field, rate] :
       {std::pair("nic_bytes_per_second", rule.nic_bytes_per_second()),
        std::pair("fabric_bytes_per_second", rule.fabric_bytes_per_second())}) {
    if (!std::isfinite(rate) || rate < 0) {
      return InvalidField(field, absl::StrCat(rate), "must be finite and >= 0");
    }
  }
  return proto::CheckMessageCosts(rule);
}

// A topology needs a host, so one stands in; the domains are then checked as those of requests are.
absl::StatusOr<std::vector<planner::Domain>> ToDomains(const v1::TopologyRules& rules) {
  v1::Topology message;
  v1::Host& host = *message.add_hosts();
  for (const v1::Domain& domain : rules.domains()) host.set_name(host.name() + domain.name() + ".");
  host.set_name(host.name() + "any");  // longer than any domain's name
  host.add_device_ids(0);
  host.set_nic_bytes_per_second(1);
  host.set_fabric_bytes_per_second(1);
  *message.mutable_domains() = rules.domains();
  ASSIGN_OR_RETURN(planner::Topology topology, proto::ToTopology(message, nullptr));
  return std::move(topology.domains);
}

// `of_transport`: what messages cost the host as far as nothing else is known.
void Apply(const v1::TopologyRules::HostRule& rule, const planner::MessageCosts& of_transport,
           Host& host) {
  if (!rule.preset().empty()) {
    const v1::TopologyPreset& preset = **proto::FindPreset(rule.preset());
    host.nics = preset.nics();
    host.nic_bytes_per_second = preset.nic_bytes_per_second();
    host.fabric_bytes_per_second = preset.fabric_bytes_per_second();
    host.message_costs = of_transport;
    proto::OverrideMessageCosts(preset, host.message_costs);
    host.capacities_assumed = false;
  }
  if (rule.nics() > 0) host.nics = rule.nics();
  if (rule.nic_bytes_per_second() > 0) {
    host.nic_bytes_per_second = rule.nic_bytes_per_second();
    host.capacities_assumed = false;
  }
  if (rule.fabric_bytes_per_second() > 0) {
    host.fabric_bytes_per_second = rule.fabric_bytes_per_second();
  }
  if (!rule.parent().empty()) host.parent = rule.parent();
  proto::OverrideMessageCosts(rule, host.message_costs);
}

}  // namespace

bool Matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, resume = 0;  // the last * and where its text may end next
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

absl::StatusOr<TopologyRules> TopologyRules::Make(v1::TopologyRules rules) {
  TopologyRules made;
  ASSIGN_OR_RETURN(made.domains_, ToDomains(rules));
  for (int i = 0; i < rules.hosts_size(); ++i) {
    const std::string field = absl::StrCat("hosts[", i, "]");
    const v1::TopologyRules::HostRule& rule = rules.hosts(i);
    RETURN_IF_ERROR(AtField(field, CheckRule(rule)));
    if (!rule.parent().empty() && !made.IsDomain(rule.parent())) {
      return InvalidField(field + ".parent", rule.parent(), "must name one of the domains");
    }
  }
  made.rules_ = std::move(rules);
  return made;
}

bool TopologyRules::IsDomain(const std::string& name) const {
  return std::any_of(domains_.begin(), domains_.end(),
                     [&](const planner::Domain& domain) { return domain.name == name; });
}

absl::Status TopologyRules::Check(const v1::Register& registration) const {
  if (IsDomain(registration.host())) {
    return InvalidField("host", registration.host(), "must not be the name of a domain");
  }
  const std::string parent = HostOf(registration).parent;
  if (parent.empty() || IsDomain(parent)) return absl::OkStatus();
  return InvalidField("parent", parent,
                      "must be a domain that the server's topology rules declare");
}

Host TopologyRules::HostOf(const v1::Register& registration) const {
  const planner::MessageCosts of_transport = proto::DefaultMessageCosts(registration);
  Host host{.name = registration.host(),
            .device_ids = {},
            .nic_bytes_per_second = registration.nic_bytes_per_second(),
            .nics = std::max(1, registration.nics()),
            .fabric_bytes_per_second = registration.fabric_bytes_per_second(),
            .parent = registration.parent(),
            .message_costs = of_transport,
            .capacities_assumed = registration.capacities_assumed()};
  proto::OverrideMessageCosts(registration, host.message_costs);
  for (const v1::WorkerDevice& device : registration.devices()) {
    host.device_ids.push_back(device.id());
  }
  for (const v1::TopologyRules::HostRule& rule : rules_.hosts()) {
    if (Matches(rule.match(), host.name)) Apply(rule, of_transport, host);
  }
  return host;
}

}  // namespace remesh::server
