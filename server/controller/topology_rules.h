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

// What an operator says of workers over what they say of themselves, checked: presets are known,
// domains make a tree, parents exist.
class TopologyRules {
 public:
  TopologyRules() = default;  // every worker is as it says

  // INVALID_ARGUMENT: "hosts[i].match", "domains[i].parent" ...
  static absl::StatusOr<TopologyRules> Make(v1::TopologyRules rules);

  // INVALID_ARGUMENT, field "parent" or "host", when the worker names a domain that is none, or has
  // the name of one.
  absl::Status Check(const v1::Register& registration) const;
  // The worker's host, in the worker's own device numbering.
  planner::Host HostOf(const v1::Register& registration) const;
  const std::vector<planner::Domain>& domains() const { return domains_; }

 private:
  bool IsDomain(const std::string& name) const;

  v1::TopologyRules rules_;
  std::vector<planner::Domain> domains_;
};

// Whether `pattern`, with * for any characters and ? for one, is all of `text`.
bool Matches(std::string_view pattern, std::string_view text);

}  // namespace remesh::server
