// SPDX-License-Identifier: Apache-2.0
#include "planner/report/alike.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "planner/report/names.h"

namespace remesh::planner {
namespace {

using Rows = absl::Span<const DomainTraffic>;
using Measure = double DomainTraffic::*;

constexpr Measure kMeasures[] = {&DomainTraffic::ingress_seconds, &DomainTraffic::egress_seconds,
                                 &DomainTraffic::ingress_bytes_per_second,
                                 &DomainTraffic::egress_bytes_per_second};

bool IsHost(const DomainTraffic& row) { return row.kind == DomainTraffic::Kind::kHost; }

// A number for each row. Rows with equal numbers are alike in `measure`.
std::vector<int32_t> Bins(Rows rows, Measure measure, double within) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return rows[a].*measure < rows[b].*measure; });
  const double width = within * rows[order.back()].*measure;
  std::vector<int32_t> bins(rows.size());
  double least = rows[order[0]].*measure, last = least;
  int32_t bin = 0;
  for (const size_t i : order) {
    const double value = rows[i].*measure;
    if (value > least + width || value > last + width / 3 || (least == 0 && value > 0)) {
      least = value;
      ++bin;
    }
    last = value;
    bins[i] = bin;
  }
  return bins;
}

// The kind of each row. Kinds are numbered by their first rows.
std::vector<int32_t> KindsOf(Rows rows, double within) {
  std::vector<std::vector<int32_t>> keys(rows.size());
  for (const Measure measure : kMeasures) {
    const std::vector<int32_t> bins = Bins(rows, measure, within);
    for (size_t i = 0; i < rows.size(); ++i) keys[i].push_back(bins[i]);
  }
  std::map<std::vector<int32_t>, int32_t> kinds;
  std::vector<int32_t> kind_of;
  for (const std::vector<int32_t>& key : keys) {
    kind_of.push_back(kinds.emplace(key, static_cast<int32_t>(kinds.size())).first->second);
  }
  return kind_of;
}

int32_t CountOf(const std::vector<int32_t>& kind_of) {
  return *std::max_element(kind_of.begin(), kind_of.end()) + 1;
}

template <typename Number>
void Widen(Number DomainTraffic::*field, const DomainTraffic& row, AlikeTraffic& kind) {
  kind.least.*field = std::min(kind.least.*field, row.*field);
  kind.most.*field = std::max(kind.most.*field, row.*field);
}

void AddRow(const DomainTraffic& row, bool follows, AlikeTraffic& kind) {
  if (kind.names.empty()) kind.least = kind.most = row;
  if (follows) {
    kind.runs.back().last = row.name;
    ++kind.runs.back().count;
  } else {
    kind.runs.push_back({.first = row.name, .last = row.name});
  }
  kind.names.push_back(row.name);
  kind.binding |= row.binding;
  for (const Measure measure : kMeasures) Widen(measure, row, kind);
  Widen(&DomainTraffic::ingress_bytes, row, kind);
  Widen(&DomainTraffic::egress_bytes, row, kind);
}

// The rank of each name in natural order.
using Places = absl::flat_hash_map<std::string, int32_t>;

Places PlacesOf(std::vector<std::string> names) {
  std::sort(names.begin(), names.end(), NaturalLess);
  Places places;
  for (size_t i = 0; i < names.size(); ++i) places[names[i]] = static_cast<int32_t>(i);
  return places;
}

// The kinds of one level, in the order of names.
std::vector<AlikeTraffic> AlikeOfLevel(Rows rows, const Places& places,
                                       const AlikeOptions& options) {
  std::vector<int32_t> kind_of = KindsOf(rows, options.within);
  for (double within = options.within; CountOf(kind_of) > options.kinds_max && within < 1;) {
    within *= 2;
    kind_of = KindsOf(rows, within);
  }
  std::vector<AlikeTraffic> kinds(CountOf(kind_of));
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool follows = i > 0 && kind_of[i - 1] == kind_of[i] &&
                         places.at(rows[i - 1].name) + 1 == places.at(rows[i].name);
    AddRow(rows[i], follows, kinds[kind_of[i]]);
  }
  return kinds;
}

}  // namespace

std::vector<AlikeTraffic> AlikeOf(std::vector<DomainTraffic> rows, const Binding& binding,
                                  const AlikeOptions& options) {
  const Places hosts = PlacesOf(binding.host_names), domains = PlacesOf(binding.domain_names);
  const auto level = [](const DomainTraffic& row) { return std::pair(IsHost(row), row.level); };
  std::stable_sort(rows.begin(), rows.end(), [&](const DomainTraffic& a, const DomainTraffic& b) {
    return level(a) != level(b) ? level(a) < level(b) : NaturalLess(a.name, b.name);
  });
  std::vector<AlikeTraffic> kinds;
  for (size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && level(rows[end]) == level(rows[first])) ++end;
    const Rows of_level = Rows(rows).subspan(first, end - first);
    const Places& places = IsHost(of_level[0]) ? hosts : domains;
    for (AlikeTraffic& kind : AlikeOfLevel(of_level, places, options)) {
      kinds.push_back(std::move(kind));
    }
  }
  return kinds;
}

}  // namespace remesh::planner
