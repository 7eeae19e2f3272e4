// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/hlo_sharding.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

constexpr std::string_view kReductionOpType = "sdy::reduction_op";
constexpr std::string_view kSdyReductionNames[] = {"SUM", "MAX", "MIN"};

// Puts subgroup dimensions in the order of their types, removes those of one device and merges
// those of equal type.
void SortAndMerge(TileAssignment& tiles, Tiled::Subgroups& subgroups) {
  const size_t data_rank = tiles.dims().size() - subgroups.size();
  std::vector<int> order(subgroups.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return subgroups[a] < subgroups[b]; });

  std::vector<int> perm;
  for (size_t d = 0; d < data_rank; ++d) perm.push_back(static_cast<int>(d));
  std::vector<int64_t> dims(tiles.dims().begin(),
                            tiles.dims().begin() + static_cast<std::ptrdiff_t>(data_rank));
  Tiled::Subgroups merged;
  for (int i : order) {
    const size_t d = data_rank + static_cast<size_t>(i);
    perm.push_back(static_cast<int>(d));
    if (tiles.dims()[d] == 1) continue;
    if (!merged.empty() && merged.back() == subgroups[i]) {
      dims.back() *= tiles.dims()[d];
    } else {
      merged.push_back(subgroups[i]);
      dims.push_back(tiles.dims()[d]);
    }
  }
  if (!std::is_sorted(perm.begin(), perm.end())) tiles = tiles.Transpose(perm);
  tiles = tiles.Reshape(dims);
  subgroups = std::move(merged);
}

// The plain form of tiles that cut no data, when there is one. As in XLA, one manual or replicated
// subgroup suffices; unreduced requires that all given subgroups are unreduced, even those of one
// device.
std::optional<HloSharding::Form> PlainForm(const Tiled::Subgroups& given,
                                           const Tiled::Subgroups& merged, ReductionOp reduction) {
  const auto all = [](const Tiled::Subgroups& types, SubgroupType type) {
    return std::all_of(types.begin(), types.end(), [&](SubgroupType t) { return t == type; });
  };
  const Tiled::Subgroups& decisive = merged.empty() ? given : merged;
  if (all(decisive, SubgroupType::kReplicated)) return Replicated{};
  if (all(decisive, SubgroupType::kManual)) return Manual{};
  if (all(given, SubgroupType::kUnreduced)) return Unreduced{reduction};
  return std::nullopt;
}

// One mesh axis cut into the factors that the references of a sharding use, major to minor.
struct AxisFactors {
  std::vector<int64_t>
      begins;            // of each factor, as AxisRef::Sub::pre_size; the last is the axis size
  size_t first_dim = 0;  // of the factors, among the dimensions of the whole mesh
};

// The dimensions of the factored mesh, and the places of a reference's factors among them.
class FactoredMesh {
 public:
  FactoredMesh(const Mesh& mesh, const std::vector<AxisRef>& refs) : axes_(mesh.axes.size()) {
    for (size_t a = 0; a < axes_.size(); ++a) axes_[a].begins = {1, mesh.axes[a].size};
    for (const AxisRef& ref : refs) {
      if (!ref.sub) continue;
      auto& begins = axes_[ref.axis].begins;
      begins.insert(begins.end(), {ref.sub->pre_size, ref.sub->pre_size * ref.sub->size});
    }
    for (AxisFactors& axis : axes_) {
      std::sort(axis.begins.begin(), axis.begins.end());
      axis.begins.erase(std::unique(axis.begins.begin(), axis.begins.end()), axis.begins.end());
      axis.first_dim = dims_.size();
      for (size_t i = 0; i + 1 < axis.begins.size(); ++i)
        dims_.push_back(axis.begins[i + 1] / axis.begins[i]);
    }
  }

  const std::vector<int64_t>& dims() const { return dims_; }

  // Appends the factored dimensions of `ref`, marks them used, and returns their product.
  int64_t Take(const AxisRef& ref, std::vector<int>& perm) const {
    const AxisFactors& axis = axes_[ref.axis];
    const int64_t begin = ref.sub ? ref.sub->pre_size : 1;
    const int64_t end = ref.sub ? begin * ref.sub->size : axis.begins.back();
    for (size_t i = 0; i + 1 < axis.begins.size(); ++i) {
      if (axis.begins[i] >= begin && axis.begins[i] < end)
        perm.push_back(static_cast<int>(axis.first_dim + i));
    }
    return end / begin;
  }

 private:
  std::vector<AxisFactors> axes_;
  std::vector<int64_t> dims_;
};

std::vector<AxisRef> RefsButReplicated(const NamedSharding& sharding) {
  std::vector<AxisRef> all;
  for (const auto& dim : sharding.dims) all.insert(all.end(), dim.axes.begin(), dim.axes.end());
  all.insert(all.end(), sharding.manual.begin(), sharding.manual.end());
  all.insert(all.end(), sharding.unreduced.begin(), sharding.unreduced.end());
  return all;
}

}  // namespace

absl::Status Append(HloSharding leaf, Tuple& tuple) {
  if (std::holds_alternative<Tuple>(leaf.form))
    return absl::InvalidArgumentError("a tuple's leaves must not be tuples");
  if (static_cast<int64_t>(tuple.leaves.size()) == kTupleLeavesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tuple has more than ", kTupleLeavesMax, " leaves"));
  }
  if (const auto* tiled = std::get_if<Tiled>(&leaf.form);
      tiled != nullptr && tiled->tiles.iota() == nullptr) {
    tuple.listed_positions += tiled->tiles.size();
  }
  if (tuple.listed_positions > kListedPositionsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tuple lists more than ", kListedPositionsMax, " devices"));
  }
  tuple.leaves.push_back(std::move(leaf));
  return absl::OkStatus();
}

absl::StatusOr<HloSharding::Form> CanonicalTiles(TileAssignment tiles, Tiled::Subgroups subgroups,
                                                 ReductionOp reduction) {
  if (subgroups.size() > tiles.dims().size()) {
    return absl::InvalidArgumentError(absl::StrCat(subgroups.size(),
                                                   " subgroups for a tile assignment of ",
                                                   tiles.dims().size(), " dimensions"));
  }
  const Tiled::Subgroups given = subgroups;
  SortAndMerge(tiles, subgroups);
  const auto data_end = tiles.dims().end() - static_cast<std::ptrdiff_t>(subgroups.size());
  const bool tiled =
      std::any_of(tiles.dims().begin(), data_end, [](int64_t dim) { return dim != 1; });
  if (!tiled && !given.empty()) {
    if (auto plain = PlainForm(given, subgroups, reduction)) return *std::move(plain);
  }
  if (tiles.dims().empty()) return Replicated{};  // one device, which holds all
  if (!subgroups.empty() && subgroups.back() == SubgroupType::kReplicated)
    tiles = tiles.SortLastDim();
  const bool reduces = std::count(subgroups.begin(), subgroups.end(), SubgroupType::kUnreduced) > 0;
  return Tiled{std::move(tiles), std::move(subgroups), reduces ? reduction : ReductionOp::kSum};
}

absl::StatusOr<ReductionOp> TakeReduction(std::vector<OpMetadata>& metadata) {
  ReductionOp op = ReductionOp::kSum;
  for (const OpMetadata& entry : metadata) {
    if (entry.op_type != kReductionOpType) continue;
    const auto* name =
        std::find(std::begin(kSdyReductionNames), std::end(kSdyReductionNames), entry.op_name);
    if (name == std::end(kSdyReductionNames)) {
      return absl::InvalidArgumentError(
          absl::StrCat("reduction \"", entry.op_name, "\" must be one of SUM, MAX, MIN"));
    }
    op = static_cast<ReductionOp>(name - std::begin(kSdyReductionNames));
  }
  std::erase_if(metadata,
                [](const OpMetadata& entry) { return entry.op_type == kReductionOpType; });
  return op;
}

OpMetadata ReductionMetadata(ReductionOp op) {
  return {std::string(kReductionOpType), std::string(kSdyReductionNames[static_cast<int>(op)])};
}

HloSharding::Form ToTiles(const NamedSharding& sharding) {
  const Mesh& mesh = sharding.mesh;
  if (mesh.maximal) return Maximal{*mesh.maximal};
  const FactoredMesh factored(mesh, RefsButReplicated(sharding));
  std::vector<int> perm;
  std::vector<int64_t> dims;
  const auto take = [&](const std::vector<AxisRef>& refs) {
    dims.push_back(1);
    for (const AxisRef& ref : refs) dims.back() *= factored.Take(ref, perm);
  };
  for (const NamedSharding::Dim& dim : sharding.dims) take(dim.axes);
  Tiled::Subgroups subgroups;
  if (!sharding.manual.empty()) {
    take(sharding.manual);
    subgroups.push_back(SubgroupType::kManual);
  }
  if (!sharding.unreduced.empty()) {
    take(sharding.unreduced);
    subgroups.push_back(SubgroupType::kUnreduced);
  }
  std::vector<bool> used(factored.dims().size(), false);
  for (int d : perm) used[d] = true;
  if (std::find(used.begin(), used.end(), false) != used.end() || subgroups.empty()) {
    dims.push_back(1);
    subgroups.push_back(SubgroupType::kReplicated);
  }
  for (size_t d = 0; d < used.size(); ++d) {
    if (used[d]) continue;
    perm.push_back(static_cast<int>(d));
    dims.back() *= factored.dims()[d];
  }
  auto form = CanonicalTiles(mesh.devices.Reshape(factored.dims()).Transpose(perm).Reshape(dims),
                             std::move(subgroups), sharding.reduction);
  REMESH_CHECK(form.ok());
  return *std::move(form);
}

}  // namespace remesh::planner
