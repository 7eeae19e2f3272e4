// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/controller/values/placed.h"

namespace remesh::server {

// Whether the shards on hosts other than `lost` cover every array of the state, so that a move that
// names the devices of `lost` needs nothing else. False for boxes so intricate that the answer
// would take long: the planner, which has threads of its own, decides exactly.
bool CoveredWithout(const PlacedState& placed, const std::set<std::string>& lost);

// The devices on which these hosts hold shards of the state, in rising order.
std::vector<int64_t> DevicesOf(const PlacedState& placed, const std::set<std::string>& hosts);

// CoveredWithout(), computed once for each set of lost hosts and derived where an earlier answer
// for the same layout implies it. Which hosts are lost is asked often and changes seldom. Not
// thread-safe.
class Replicas {
 public:
  bool CoverWithout(const std::shared_ptr<const PlacedState>& placed,
                    const std::set<std::string>& lost);
  int computed() const { return computed_; }

 private:
  std::shared_ptr<const PlacedState> placed_;  // of the answer; null: none yet
  std::set<std::string> lost_;
  bool covered_ = false;
  int computed_ = 0;
};

}  // namespace remesh::server
