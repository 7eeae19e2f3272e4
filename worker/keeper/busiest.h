// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <map>
#include <utility>

namespace remesh::worker {

// Selects the element to drop when all users share one limit: the oldest element of the user who
// has the most, so that a user who floods the limit loses only their own elements. Among users with
// equally many, `newcomer`, whose latest element is already in `held`, goes first. REQUIRES: `held`
// is not empty and has the oldest element first; each element has a `uid`.
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
