// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/text/nearest.h"

namespace remesh::proto {

// The keys of a map, sorted, for suggestions, which must not depend on a hash's order.
template <typename Map>
std::vector<std::string> SortedKeys(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

// What KnownNames() says of a key that `map` does not have.
template <typename Map>
std::string KnownKeys(const std::string& key, const Map& map) {
  return KnownNames(key, SortedKeys(map));
}

}  // namespace remesh::proto
