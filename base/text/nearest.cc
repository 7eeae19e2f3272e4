// SPDX-License-Identifier: Apache-2.0
#include "base/text/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace remesh {

namespace {

std::string WithoutDigits(std::string text) {
  std::erase_if(text, absl::ascii_isdigit);
  return text;
}

// "host-9" for "host-12": another host, not a slip.
bool IsOtherNumber(const std::string& a, const std::string& b) {
  const std::string words = WithoutDigits(a);
  return words == WithoutDigits(b) && words.size() < std::min(a.size(), b.size());
}

bool IsNear(const std::string& part, const std::string& other) {
  if (part == other) return true;
  return !IsOtherNumber(part, other) && !Nearest(part, {other}).empty();
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

std::string Nearest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kNameMax = 100;  // a longer name is no typo, and would take quadratic time
  if (name.empty() || name.size() > kNameMax) return "";
  size_t best = std::max<size_t>(name.size() / 3, std::min<size_t>(name.size() - 1, 2)) + 1;
  std::string nearest;
  constexpr size_t kCandidatesMax = 10'000;
  for (size_t i = 0; i < std::min(candidates.size(), kCandidatesMax); ++i) {
    const std::string& candidate = candidates[i];
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t shorter = std::min(name.size(), candidate.size());
    if (longer - shorter >= best) continue;  // so many characters differ at least
    const size_t distance = EditDistance(name, candidate);
    // Half of it typed wrongly, from the first letter on: another word. "bash" for "tcsh".
    if (distance * 2 >= name.size() && name[0] != candidate[0]) continue;
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::vector<std::string> NearInEachPart(std::string_view name,
                                        const std::vector<std::string>& candidates) {
  using Parts = std::vector<std::string>;
  const Parts parts = absl::StrSplit(absl::string_view(name.data(), name.size()), '/');
  std::vector<std::string> near;
  for (const std::string& candidate : candidates) {
    const Parts others = absl::StrSplit(candidate, '/');
    bool all_near = others.size() == parts.size();
    for (size_t i = 0; all_near && i < parts.size(); ++i) all_near = IsNear(parts[i], others[i]);
    if (all_near) near.push_back(candidate);
  }
  return near;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(name, candidates);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}

std::string KnownNames(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kNamed = 10;
  const std::string nearest = DidYouMean(name, names);
  if (!nearest.empty()) return nearest;
  if (names.empty()) return ", which is empty";
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed));
  return absl::StrCat(", which has ", absl::StrJoin(names.begin(), end, ", "),
                      names.size() > kNamed ? " ..." : "");
}

}  // namespace remesh
