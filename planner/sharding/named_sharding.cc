// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/named_sharding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

// The half-open range of an axis' factors that a reference covers: an axis of 8 seen as 2 x 2 x 2
// has (2)2 at [2, 4).
struct Factors {
  int64_t axis;
  int64_t begin;  // product of the factors before it
  int64_t end;    // begin x size
};

Factors FactorsOf(const Mesh& mesh, const AxisRef& ref) {
  const int64_t begin = ref.sub ? ref.sub->pre_size : 1;
  return {ref.axis, begin, begin * SizeOf(mesh, ref)};
}

AxisRef RefOf(const Mesh& mesh, const Factors& factors) {
  const int64_t size = factors.end / factors.begin;
  if (size == mesh.axes[factors.axis].size) return {factors.axis, std::nullopt};
  return {factors.axis, AxisRef::Sub{factors.begin, size}};
}

void JoinNeighbours(const Mesh& mesh, std::vector<AxisRef>& refs) {
  std::vector<AxisRef> joined;
  for (const AxisRef& ref : refs) {
    if (!joined.empty() && joined.back().axis == ref.axis) {
      const Factors before = FactorsOf(mesh, joined.back());
      const Factors after = FactorsOf(mesh, ref);
      if (before.end == after.begin) {
        joined.back() = RefOf(mesh, {ref.axis, before.begin, after.end});
        continue;
      }
    }
    joined.push_back(ref);
  }
  refs = std::move(joined);
}

bool Earlier(const Mesh& mesh, const AxisRef& a, const AxisRef& b) {
  const Factors fa = FactorsOf(mesh, a);
  const Factors fb = FactorsOf(mesh, b);
  return std::tie(fa.axis, fa.begin, fa.end) < std::tie(fb.axis, fb.begin, fb.end);
}

// Every reference of the sharding, in no particular order.
std::vector<AxisRef> AllRefs(const NamedSharding& sharding) {
  std::vector<AxisRef> all;
  for (const auto& dim : sharding.dims) all.insert(all.end(), dim.axes.begin(), dim.axes.end());
  for (const auto* refs : {&sharding.replicated, &sharding.unreduced, &sharding.manual}) {
    all.insert(all.end(), refs->begin(), refs->end());
  }
  return all;
}

// Parts of one axis must follow each other, and each end must divide the next begin, so that the
// axis has a common factorization.
absl::Status CheckDisjoint(const Mesh& mesh, std::vector<AxisRef> refs) {
  std::sort(refs.begin(), refs.end(),
            [&](const AxisRef& a, const AxisRef& b) { return Earlier(mesh, a, b); });
  for (size_t i = 0; i + 1 < refs.size(); ++i) {
    if (refs[i].axis != refs[i + 1].axis) continue;
    const Factors before = FactorsOf(mesh, refs[i]);
    const Factors after = FactorsOf(mesh, refs[i + 1]);
    if (before.end <= after.begin && after.begin % before.end == 0) continue;
    // References to an axis of one device do not overlap, but naming it twice is still a mistake.
    return absl::InvalidArgumentError(absl::StrCat(
        "axis \"", mesh.axes[refs[i].axis].name, "\" is used twice, or by sub-axes that overlap"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamedSharding> Canonicalized(NamedSharding sharding) {
  const Mesh& mesh = sharding.mesh;
  if (sharding.dims.size() > kTileRankMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", sharding.dims.size(), " dimensions, more than ", kTileRankMax));
  }
  const std::vector<AxisRef> all = AllRefs(sharding);
  for (const AxisRef& ref : all) RETURN_IF_ERROR(CheckAxisRef(mesh, ref));
  RETURN_IF_ERROR(CheckDisjoint(mesh, all));
  const auto earlier = [&](const AxisRef& a, const AxisRef& b) { return Earlier(mesh, a, b); };
  for (auto* refs : {&sharding.replicated, &sharding.unreduced, &sharding.manual}) {
    std::sort(refs->begin(), refs->end(), earlier);
    JoinNeighbours(mesh, *refs);
  }
  for (auto& dim : sharding.dims) JoinNeighbours(mesh, dim.axes);
  if (mesh.maximal) sharding.dims.clear();
  if (sharding.unreduced.empty()) sharding.reduction = ReductionOp::kSum;
  return sharding;
}

}  // namespace remesh::planner
