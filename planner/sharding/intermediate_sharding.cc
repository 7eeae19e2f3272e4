// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/intermediate_sharding.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::planner {
namespace {

using Tiles = std::vector<int64_t>;

constexpr char kSplitSuffix[] = "_intermediate_split";
constexpr char kReplicaSuffix[] = "_intermediate_replica";

int64_t Product(absl::Span<const int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{1}, std::multiplies<>());
}

int64_t Largest(absl::Span<const int64_t> numbers) {
  return numbers.empty() ? 1 : *std::max_element(numbers.begin(), numbers.end());
}

absl::Status Refuse(const char* reason, const std::string& why, absl::Span<const int64_t> source,
                    absl::Span<const int64_t> target) {
  const std::string from = absl::StrCat("[", absl::StrJoin(source, ","), "]");
  const std::string to = absl::StrCat("[", absl::StrJoin(target, ","), "]");
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("from tiles ", from, " to tiles ", to, ": ", why),
                   {.reason = reason, .metadata = {{"source_tiles", from}, {"target_tiles", to}}});
}

absl::Status None(const std::string& why, absl::Span<const int64_t> source,
                  absl::Span<const int64_t> target) {
  return Refuse("NO_INTERMEDIATE_SHARDING", why, source, target);
}

absl::Status CheckTotals(absl::Span<const int64_t> source, absl::Span<const int64_t> target) {
  if (source.size() != target.size()) {
    return None("source and target must have the same rank", source, target);
  }
  if (Largest(source) % Largest(target) != 0) {
    return None(
        "the shardings are undividable: the most tiles of a dimension before are no "
        "multiple of the most after",
        source, target);
  }
  if (Product(source) <= Product(target)) {
    return None("the source's tiles are not larger than the target's in number", source, target);
  }
  if (Product(source) % Product(target) != 0) {
    return None("the number of the source's tiles is not divisible by the target's", source,
                target);
  }
  return absl::OkStatus();
}

// Tiles per dimension; nullopt when any rank is possible.
absl::StatusOr<std::optional<Tiles>> TilesOf(const HloSharding& sharding) {
  if (std::holds_alternative<Replicated>(sharding.form)) return std::optional<Tiles>();
  if (const auto* tiled = std::get_if<Tiled>(&sharding.form)) {
    const auto& dims = tiled->tiles.dims();
    return std::optional<Tiles>(Tiles(dims.begin(), dims.begin() + tiled->data_rank()));
  }
  const auto* named = std::get_if<NamedSharding>(&sharding.form);
  if (named == nullptr || named->mesh.maximal) {
    return None("only shardings that cut dimensions into tiles have one", {}, {});
  }
  if (named->dims.empty()) return std::optional<Tiles>();
  Tiles tiles;
  for (const NamedSharding::Dim& dim : named->dims) {
    tiles.push_back(1);
    for (const AxisRef& ref : dim.axes) tiles.back() *= SizeOf(named->mesh, ref);
  }
  return std::optional<Tiles>(std::move(tiles));
}

// ---- tiles ----

// Reduces dimension d of `tiled` to tiles[d] tiles; the tiles that it gives up become replicas.
absl::StatusOr<HloSharding::Form> WithTiles(const Tiled& tiled, const Tiles& tiles) {
  const auto& dims = tiled.tiles.dims();
  std::vector<int64_t> cut;          // every data dimension cut in two, then the subgroups
  std::vector<int> order, given_up;  // dimensions of `cut`
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool data = d < tiles.size();
    order.push_back(static_cast<int>(cut.size()));
    cut.push_back(data ? tiles[d] : dims[d]);
    if (!data) continue;
    given_up.push_back(static_cast<int>(cut.size()));
    cut.push_back(dims[d] / tiles[d]);
  }
  order.insert(order.end(), given_up.begin(), given_up.end());
  Tiled::Subgroups subgroups = tiled.subgroups;
  subgroups.insert(subgroups.end(), given_up.size(), SubgroupType::kReplicated);
  return CanonicalTiles(tiled.tiles.Reshape(cut).Transpose(order), std::move(subgroups),
                        tiled.reduction);
}

// ---- named axes ----

// Keeps the major `tiles` tiles that `axes` cut and moves the rest to `replicas`; false when no
// axis can be cut there.
bool CutAxes(const Mesh& mesh, int64_t tiles, std::vector<AxisRef>& axes,
             std::vector<AxisRef>& replicas) {
  std::vector<AxisRef> kept;
  for (const AxisRef& ref : axes) {
    const int64_t size = SizeOf(mesh, ref);
    const int64_t pre_size = ref.sub ? ref.sub->pre_size : 1;
    if (tiles % size == 0) {
      kept.push_back(ref);
      tiles /= size;
    } else if (tiles == 1) {
      replicas.push_back(ref);
    } else if (size % tiles == 0) {
      kept.push_back({ref.axis, AxisRef::Sub{pre_size, tiles}});
      replicas.push_back({ref.axis, AxisRef::Sub{pre_size * tiles, size / tiles}});
      tiles = 1;
    } else {
      return false;
    }
  }
  axes = std::move(kept);
  return true;
}

template <typename Visit>
void ForEachRef(NamedSharding& sharding, const Visit& visit) {
  for (auto& dim : sharding.dims) std::for_each(dim.axes.begin(), dim.axes.end(), visit);
  for (auto* refs : {&sharding.replicated, &sharding.unreduced, &sharding.manual}) {
    std::for_each(refs->begin(), refs->end(), visit);
  }
}

// The number of devices along the major sub-axis of each axis that is cut in exactly two; else 0.
std::vector<int64_t> CutsInTwo(NamedSharding& sharding) {
  std::vector<int64_t> cuts(sharding.mesh.axes.size(), 0);
  ForEachRef(sharding, [&](const AxisRef& ref) {
    if (ref.sub && ref.sub->pre_size == 1) cuts[ref.axis] = ref.sub->size;
  });
  ForEachRef(sharding, [&](const AxisRef& ref) {
    int64_t& cut = cuts[ref.axis];
    const bool major = ref.sub && ref.sub->pre_size == 1 && ref.sub->size == cut;
    const bool minor = ref.sub && ref.sub->pre_size == cut &&
                       cut * ref.sub->size == sharding.mesh.axes[ref.axis].size;
    if (!major && !minor) cut = 0;
  });
  return cuts;
}

std::string FreeName(const Mesh& mesh, std::string name) {
  while (FindAxis(mesh, name)) name += '_';
  return name;
}

// Replaces sub-axes of axes that are cut in two by axes of their own, as JAX requires. Keeps the
// order of devices.
void NameSubAxes(NamedSharding& sharding, const std::vector<bool>& may_cut) {
  std::vector<int64_t> cuts = CutsInTwo(sharding);
  Mesh mesh{.axes = {}, .devices = sharding.mesh.devices, .maximal = std::nullopt};
  std::vector<int64_t> first;  // new axis of each old one
  std::vector<int64_t> sizes;
  for (size_t a = 0; a < cuts.size(); ++a) {
    const MeshAxis& axis = sharding.mesh.axes[a];
    if (!may_cut[a]) cuts[a] = 0;
    first.push_back(static_cast<int64_t>(mesh.axes.size()));
    if (cuts[a] == 0) {
      mesh.axes.push_back(axis);
      continue;
    }
    mesh.axes.push_back({FreeName(sharding.mesh, axis.name + kSplitSuffix), cuts[a]});
    mesh.axes.push_back({FreeName(sharding.mesh, axis.name + kReplicaSuffix), axis.size / cuts[a]});
  }
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  mesh.devices = mesh.devices.Reshape(sizes);
  ForEachRef(sharding, [&](AxisRef& ref) {
    const bool minor = cuts[ref.axis] > 0 && ref.sub->pre_size > 1;
    if (cuts[ref.axis] > 0) ref.sub.reset();
    ref.axis = first[ref.axis] + (minor ? 1 : 0);
  });
  sharding.mesh = std::move(mesh);
}

std::string NameOf(const Mesh& mesh, const AxisRef& ref) {
  const std::string& name = mesh.axes[ref.axis].name;
  return ref.sub ? absl::StrCat(name, ":(", ref.sub->pre_size, ")", ref.sub->size) : name;
}

absl::Status SetNamed(NamedSharding sharding, IntermediateSharding& result) {
  std::vector<bool> may_cut(sharding.mesh.axes.size(), true);
  ForEachRef(sharding, [&](const AxisRef& ref) {
    if (ref.sub) may_cut[ref.axis] = false;
  });
  std::vector<AxisRef> replicas;
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    if (CutAxes(sharding.mesh, result.tiles[d], sharding.dims[d].axes, replicas)) continue;
    return None(absl::StrCat("the mesh axes of dimension ", d, " cannot be cut at ",
                             result.tiles[d], " of ", result.source_tiles[d], " tiles"),
                result.source_tiles, result.target_tiles);
  }
  const size_t given = sharding.replicated.size();
  sharding.replicated.insert(sharding.replicated.end(), replicas.begin(), replicas.end());
  NameSubAxes(sharding, may_cut);
  for (size_t i = given; i < sharding.replicated.size(); ++i) {
    result.replicated_axes.push_back(NameOf(sharding.mesh, sharding.replicated[i]));
  }
  ASSIGN_OR_RETURN(result.sharding.form, Canonicalized(std::move(sharding)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tiles> IntermediateTiles(absl::Span<const int64_t> source,
                                        absl::Span<const int64_t> target) {
  RETURN_IF_ERROR(CheckTotals(source, target));
  for (size_t d = 0; d < source.size(); ++d) {
    if (std::gcd(source[d], target[d]) == 1) continue;
    return Refuse("NO_INTERMEDIATE_SHARDING_NEEDED",
                  absl::StrCat("dimension ", d, " can stay sharded, nothing has to be gathered"),
                  source, target);
  }
  std::vector<size_t> suitable;
  for (size_t d = 0; d < source.size(); ++d) {
    if (source[d] > target[d]) suitable.push_back(d);
  }
  std::stable_sort(suitable.begin(), suitable.end(),
                   [&](size_t a, size_t b) { return source[a] > source[b]; });
  Tiles tiles(source.begin(), source.end());
  int64_t replicas = Product(source) / Product(target);
  for (const size_t d : suitable) {
    const int64_t factor = std::gcd(tiles[d], replicas);
    tiles[d] /= factor;
    replicas /= factor;
  }
  if (replicas != 1) return None("no suitable dimension to split", source, target);
  return tiles;
}

absl::StatusOr<IntermediateSharding> FindIntermediateSharding(const HloSharding& source,
                                                              const HloSharding& target) {
  ASSIGN_OR_RETURN(std::optional<Tiles> from, TilesOf(source));
  ASSIGN_OR_RETURN(std::optional<Tiles> to, TilesOf(target));
  if (!from) from = Tiles(to ? to->size() : 0, 1);
  if (!to) to = Tiles(from->size(), 1);
  IntermediateSharding result{.source_tiles = *from, .target_tiles = *to};
  ASSIGN_OR_RETURN(result.tiles, IntermediateTiles(*from, *to));
  result.replicas = Product(*from) / Product(*to);
  if (const auto* named = std::get_if<NamedSharding>(&source.form)) {
    RETURN_IF_ERROR(SetNamed(*named, result));
  } else {
    ASSIGN_OR_RETURN(result.sharding.form, WithTiles(std::get<Tiled>(source.form), result.tiles));
  }
  return result;
}

}  // namespace remesh::planner
