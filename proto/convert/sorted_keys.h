// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest.h"

namespace remesh::proto {

// The keys of a map, sorted, for suggestions, which must not depend on a hash's order.
template <typename Map>
std::vector<std::string> SortedKeys(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

// "; did you mean "rows"?" for a key that `map` does not have, or which keys it has.
template <typename Map>
std::string KnownKeys(const std::string& key, const Map& map) {
  constexpr size_t kNamed = 10;
  const std::vector<std::string> keys = SortedKeys(map);
  const std::string nearest = DidYouMean(key, keys);
  if (!nearest.empty()) return nearest;
  if (keys.empty()) return ", which has no entry";
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(std::min(keys.size(), kNamed));
  return absl::StrCat(", which has ", absl::StrJoin(keys.begin(), end, ", "),
                      keys.size() > kNamed ? " ..." : "");
}

}  // namespace remesh::proto
