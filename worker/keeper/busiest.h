// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <map>
#include <utility>

namespace remesh::worker {

// What must go where all users share one limit: the oldest of the user who has most, so that one
// who floods it loses his own. `newcomer`, whose latest is among them, goes before others who have
// as many. REQUIRES: `held` is not empty, the oldest first; each has a `uid`.
template <typename Container>
typename Container::iterator OldestOfBusiest(Container& held, uid_t newcomer) {
  const auto uid_of = [](const auto& one) { return one.uid; };
  std::map<uid_t, size_t> counts;
  for (const auto& one : held) ++counts[uid_of(one)];
  const auto busiest = std::ranges::max_element(
      counts, {}, [&](const auto& user) { return std::pair(user.second, user.first == newcomer); });
  return std::ranges::find(held, busiest->first, uid_of);
}

}  // namespace remesh::worker
