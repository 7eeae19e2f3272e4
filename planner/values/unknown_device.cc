// SPDX-License-Identifier: Apache-2.0
#include "planner/values/unknown_device.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace remesh::planner {
namespace {

constexpr size_t kRangesShown = 4;

// Both ends belong to it.
struct IdRange {
  int64_t first;
  int64_t last;
};

std::vector<int64_t> SortedIds(const Topology& topology) {
  std::vector<int64_t> ids;
  for (const Host& host : topology.hosts)
    ids.insert(ids.end(), host.device_ids.begin(), host.device_ids.end());
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<IdRange> RangesOf(const std::vector<int64_t>& sorted_ids) {
  std::vector<IdRange> ranges;
  for (const int64_t id : sorted_ids) {
    if (!ranges.empty() && ranges.back().last == id - 1) {
      ranges.back().last = id;
    } else {
      ranges.push_back({id, id});
    }
  }
  return ranges;
}

// As many as are shown, with `id` between them where that can be.
std::vector<IdRange> Near(int64_t id, const std::vector<IdRange>& ranges) {
  if (ranges.size() <= kRangesShown) return ranges;
  const auto above = std::find_if(ranges.begin(), ranges.end(),
                                  [id](const IdRange& range) { return range.first > id; });
  const size_t below = above - ranges.begin();
  const size_t begin = std::min(below - std::min(below, kRangesShown / 2),  //
                                ranges.size() - kRangesShown);
  return {ranges.begin() + begin, ranges.begin() + begin + kRangesShown};
}

std::string Text(const std::vector<IdRange>& ranges) {
  return absl::StrJoin(ranges, ", ", [](std::string* out, const IdRange& range) {
    absl::StrAppend(out, range.first);
    if (range.last > range.first) absl::StrAppend(out, "..", range.last);
  });
}

}  // namespace

absl::Status UnknownDevice(std::string_view field, int64_t id, const Topology& topology) {
  const std::vector<int64_t> ids = SortedIds(topology);
  const std::vector<IdRange> ranges = RangesOf(ids), near = Near(id, ranges);
  const std::string shown = near.size() == ranges.size()
                                ? Text(near)
                                : absl::StrCat(ids.size(), " devices from ", ids.front(), " to ",
                                               ids.back(), ", the nearest ", Text(near));
  return InvalidField(field, absl::StrCat(id),
                      absl::StrCat("must be a device of the topology, which has ", shown));
}

}  // namespace remesh::planner
