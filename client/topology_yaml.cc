// SPDX-License-Identifier: Apache-2.0
#include "client/topology_yaml.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh::client {
namespace {

// JSON strings are valid YAML.
std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string HostLine(const v1::Host& host) {
  std::string line = absl::StrCat("- {name: ", Quoted(host.name()), ", device_ids: [",
                                  absl::StrJoin(host.device_ids(), ", "), "], nics: ", host.nics(),
                                  ", nic_bytes_per_second: ", host.nic_bytes_per_second(),
                                  ", fabric_bytes_per_second: ", host.fabric_bytes_per_second());
  if (!host.parent().empty()) absl::StrAppend(&line, ", parent: ", Quoted(host.parent()));
  return line + "}\n";
}

std::string DomainLine(const v1::Domain& domain) {
  std::string line = absl::StrCat("- {name: ", Quoted(domain.name()));
  if (!domain.parent().empty()) absl::StrAppend(&line, ", parent: ", Quoted(domain.parent()));
  return absl::StrCat(line, ", egress_bytes_per_second: ", domain.egress_bytes_per_second(),
                      ", ingress_bytes_per_second: ", domain.ingress_bytes_per_second(), "}\n");
}

}  // namespace

std::string TopologyYaml(const v1::Topology& topology) {
  std::string text = "hosts:\n";
  for (const v1::Host& host : topology.hosts()) text += HostLine(host);
  if (topology.domains_size() > 0) text += "domains:\n";
  for (const v1::Domain& domain : topology.domains()) text += DomainLine(domain);
  return text;
}

}  // namespace remesh::client
