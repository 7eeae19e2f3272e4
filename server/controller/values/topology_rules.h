// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/values/topology.h"
#include "remesh/v1/topology.pb.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// What an operator declares about workers, which overrides what they report of themselves. Checked:
// presets are known, domains form a tree, parents exist.
class TopologyRules {
 public:
  TopologyRules() = default;  // every worker is as it reports

  // INVALID_ARGUMENT: "hosts[i].match", "domains[i].parent" ...
  static absl::StatusOr<TopologyRules> Make(v1::TopologyRules rules);

  // INVALID_ARGUMENT, field "parent" or "host", when the worker names a domain that does not exist,
  // or has the name of one.
  absl::Status Check(const v1::Register& registration) const;
  // The worker's host, in the worker's own device numbering.
  planner::Host HostOf(const v1::Register& registration) const;
  const std::vector<planner::Domain>& domains() const { return domains_; }

 private:
  bool IsDomain(const std::string& name) const;

  v1::TopologyRules rules_;
  std::vector<planner::Domain> domains_;
};

// Whether `pattern` matches all of `text`; * stands for any characters and ? for one.
bool Matches(std::string_view pattern, std::string_view text);

}  // namespace remesh::server
