// SPDX-License-Identifier: Apache-2.0
#include "planner/sharding/dtensor.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/sharding/limits.h"

namespace remesh::planner {
namespace {

constexpr std::array<std::string_view, 8> kReduceOps = {"avg", "band", "bor",     "bxor",
                                                        "max", "min",  "product", "sum"};
constexpr int64_t kIntervalsMax = int64_t{1} << 20;  // of one array dimension, over all parts

constexpr int64_t kBoxesOfLayoutMax = int64_t{1} << 21;

// The indices that a local tensor holds along one dimension, rising. Neighbours in the local tensor
// may be apart in the array.
using Indices = std::vector<Interval>;

int64_t Length(const Indices& indices) {
  int64_t length = 0;
  for (const Interval& interval : indices) length += interval.size();
  return length;
}

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Hands out the indices of a local tensor from front to back.
class Front {
 public:
  explicit Front(const Indices& indices) : indices_(indices), left_(Length(indices)) {}

  int64_t left() const { return left_; }

  // Appends the next `count` indices, or all that are left if they are fewer.
  void Take(int64_t count, Indices& out) {
    count = std::min(count, left_);
    left_ -= count;
    while (count > 0) {
      const Interval& interval = indices_[at_];
      const int64_t lo = interval.lo + used_;
      const int64_t hi = std::min(interval.hi, lo + count);
      if (!out.empty() && out.back().hi == lo) {
        out.back().hi = hi;
      } else {
        out.push_back({lo, hi});
      }
      count -= hi - lo;
      used_ += hi - lo;
      if (hi == interval.hi) {
        ++at_;
        used_ = 0;
      }
    }
  }

 private:
  const Indices& indices_;
  size_t at_ = 0;
  int64_t used_ = 0;
  int64_t left_;
};

// How a mesh dimension of `chunks` devices splits one array dimension.
struct Split {
  int64_t chunks;
  int64_t split_factor;  // 1 for Shard
  size_t placement;      // index, for errors
};

// The local tensors after the split, one for each chunk.
std::vector<Indices> Apply(const Split& split, const Indices& indices) {
  std::vector<Indices> shards(split.chunks);
  Front front(indices);
  const int64_t piece = CeilDiv(front.left(), split.split_factor);
  while (front.left() > 0) {
    int64_t in_piece = std::min(piece, front.left());
    const int64_t chunk = CeilDiv(in_piece, split.chunks);
    for (int64_t i = 0; in_piece > 0; ++i) {
      front.Take(std::min(chunk, in_piece), shards[i]);
      in_piece -= std::min(chunk, in_piece);
    }
  }
  return shards;
}

// The most chunks of pieces that Apply() hands out.
int64_t ChunksOf(const Split& split, const Indices& indices) {
  const int64_t length = Length(indices);
  const int64_t pieces = std::min(split.split_factor, length);
  const int64_t chunks = std::min(split.chunks, length);
  if (pieces > kIntervalsMax) return kIntervalsMax + 1;
  return static_cast<int64_t>(indices.size()) + pieces * chunks;
}

absl::StatusOr<DimPartition> PartitionOf(int64_t extent, const std::vector<Split>& splits) {
  std::vector<Indices> parts = {extent > 0 ? Indices{{0, extent}} : Indices{}};
  for (const Split& split : splits) {
    std::vector<Indices> finer;
    int64_t chunks = 0;
    for (const Indices& part : parts) {
      chunks += ChunksOf(split, part);
      if (chunks > kIntervalsMax) {
        return InvalidField(
            absl::StrCat("placements[", split.placement, "].strided_shard.split_factor"),
            absl::StrCat(split.split_factor), "cuts the array into too many pieces");
      }
      for (Indices& shard : Apply(split, part)) finer.push_back(std::move(shard));
    }
    parts = std::move(finer);
  }
  std::vector<std::pair<Interval, int64_t>> intervals;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (const Interval& interval : parts[p])
      intervals.emplace_back(interval, static_cast<int64_t>(p));
  }
  std::sort(intervals.begin(), intervals.end());
  DimPartition partition{.parts = static_cast<int64_t>(parts.size()), .cuts = {0}, .part_of = {}};
  for (const auto& [interval, part] : intervals) {
    partition.cuts.push_back(interval.hi);
    partition.part_of.push_back(part);
  }
  return partition;
}

// The largest number of intervals that one part has.
int64_t IntervalsMax(const DimPartition& partition) {
  std::vector<int64_t> count(partition.parts, 0);
  for (int64_t part : partition.part_of) ++count[part];
  return *std::max_element(count.begin(), count.end());
}

// What the placements mean: which mesh dimensions split which array dimensions, and which are
// partial.
struct Roles {
  std::vector<std::vector<size_t>> splitters;  // per array dimension, mesh dimensions
  std::vector<std::vector<Split>> splits;      // the same, as splits
  std::vector<std::pair<std::string_view, size_t>>
      partials;  // reduction, mesh dimension; by reduction
};

absl::Status AddSplit(int64_t dim, int64_t split_factor, size_t m, int64_t chunks,
                      std::string_view kind, Roles& roles) {
  const auto rank = static_cast<int64_t>(roles.splits.size());
  const std::string field = absl::StrCat("placements[", m, "].", std::string(kind));
  if (dim < -rank || dim >= rank) {
    return InvalidField(field + ".dim", absl::StrCat(dim),
                        absl::StrCat("must be a dimension of the array: 0 to ", rank - 1, ", or ",
                                     -rank, " to -1 counting from the end"));
  }
  if (split_factor < 1)
    return InvalidField(field + ".split_factor", absl::StrCat(split_factor), "must be >= 1");
  const auto d = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  roles.splitters[d].push_back(m);
  roles.splits[d].push_back({chunks, split_factor, m});
  return absl::OkStatus();
}

absl::Status AddPartial(const std::string& reduce_op, size_t m, Roles& roles) {
  const std::string_view op = reduce_op.empty() ? "sum" : std::string_view(reduce_op);
  const auto* known = std::find(kReduceOps.begin(), kReduceOps.end(), op);
  if (known == kReduceOps.end()) {
    return InvalidField(absl::StrCat("placements[", m, "].partial.reduce_op"), reduce_op,
                        "must be one of sum, avg, product, max, min, band, bor, bxor");
  }
  roles.partials.emplace_back(*known, m);
  return absl::OkStatus();
}

absl::StatusOr<Roles> RolesOf(const DTensorSharding& sharding, size_t rank) {
  Roles roles{.splitters = std::vector<std::vector<size_t>>(rank),
              .splits = std::vector<std::vector<Split>>(rank),
              .partials = {}};
  for (size_t m = 0; m < sharding.placements.size(); ++m) {
    const DTensorSharding::Placement& placement = sharding.placements[m];
    const int64_t chunks = sharding.mesh_shape[m];
    if (const auto* shard = std::get_if<DTensorSharding::Shard>(&placement)) {
      RETURN_IF_ERROR(AddSplit(shard->dim, 1, m, chunks, "shard", roles));
    } else if (const auto* strided = std::get_if<DTensorSharding::StridedShard>(&placement)) {
      RETURN_IF_ERROR(
          AddSplit(strided->dim, strided->split_factor, m, chunks, "strided_shard", roles));
    } else if (const auto* partial = std::get_if<DTensorSharding::Partial>(&placement)) {
      RETURN_IF_ERROR(AddPartial(partial->reduce_op, m, roles));
    }
  }
  std::stable_sort(roles.partials.begin(), roles.partials.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return roles;
}

absl::Status CheckMesh(const DTensorSharding& sharding, int32_t device_count) {
  if (sharding.mesh_shape.size() > kTileRankMax) {
    return InvalidField("mesh_shape", absl::StrCat(sharding.mesh_shape.size()),
                        absl::StrCat("dimensions are more than ", kTileRankMax));
  }
  if (sharding.placements.size() != sharding.mesh_shape.size()) {
    return InvalidField("placements", absl::StrCat(sharding.placements.size(), " placements"),
                        absl::StrCat("must be ", sharding.mesh_shape.size(),
                                     ", one for each dimension of mesh_shape"));
  }
  int64_t size = 1;
  for (size_t m = 0; m < sharding.mesh_shape.size(); ++m) {
    const int64_t dim = sharding.mesh_shape[m];
    if (dim < 1 || dim > kPositionsMax || size * dim > kPositionsMax) {
      return InvalidField(
          absl::StrCat("mesh_shape[", m, "]"), absl::StrCat(dim),
          absl::StrCat("must be >= 1, and the mesh at most ", kPositionsMax, " devices"));
    }
    size *= dim;
  }
  if (size == device_count) return absl::OkStatus();
  return InvalidField("devices", absl::StrCat(device_count, " devices"),
                      absl::StrCat("must be ", size, ", for they do not fill the mesh [",
                                   absl::StrJoin(sharding.mesh_shape, ","), "] of ", size));
}

// "unreduced[sum](4),..." with the sizes of mesh dimensions of one reduction multiplied; "" when no
// devices are partial.
std::string KindOf(const Roles& roles, const std::vector<int64_t>& mesh_shape) {
  std::vector<std::string> kinds;
  for (size_t i = 0; i < roles.partials.size();) {
    const std::string_view op = roles.partials[i].first;
    int64_t size = 1;
    for (; i < roles.partials.size() && roles.partials[i].first == op; ++i)
      size *= mesh_shape[roles.partials[i].second];
    if (size > 1) kinds.push_back(absl::StrCat("unreduced[", std::string(op), "](", size, ")"));
  }
  return absl::StrJoin(kinds, ",");
}

}  // namespace

absl::StatusOr<Layout> ToLayout(const DTensorSharding& sharding, const Shape& shape,
                                int32_t device_count) {
  RETURN_IF_ERROR(CheckMesh(sharding, device_count));
  ASSIGN_OR_RETURN(const Roles roles, RolesOf(sharding, shape.size()));
  std::vector<DimPartition> partitions;
  int64_t boxes = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    ASSIGN_OR_RETURN(DimPartition partition, PartitionOf(shape[d], roles.splits[d]));
    boxes *= std::max<int64_t>(1, IntervalsMax(partition));
    if (boxes > kBoxesOfPositionMax || boxes * device_count > kBoxesOfLayoutMax) {
      return InvalidField(
          "placements", absl::StrCat(boxes),
          absl::StrCat("pieces or more in one shard are above ", kBoxesOfPositionMax, ", or above ",
                       kBoxesOfLayoutMax, " on all devices"));
    }
    partitions.push_back(std::move(partition));
  }
  const std::string kind = KindOf(roles, sharding.mesh_shape);
  std::vector<int64_t> numbers(device_count, 0);
  std::vector<int64_t> subgroups(kind.empty() ? 0 : device_count, 0);
  std::vector<int64_t> coordinates(sharding.mesh_shape.size());
  for (int32_t position = 0; position < device_count; ++position) {
    int64_t rest = position;
    for (size_t m = coordinates.size(); m-- > 0;) {
      coordinates[m] = rest % sharding.mesh_shape[m];
      rest /= sharding.mesh_shape[m];
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      for (size_t m : roles.splitters[d]) {
        numbers[position] = numbers[position] * sharding.mesh_shape[m] + coordinates[m];
      }
    }
    if (kind.empty()) continue;
    for (const auto& [op, m] : roles.partials) {
      subgroups[position] = subgroups[position] * sharding.mesh_shape[m] + coordinates[m];
    }
  }
  return MakeSeparableLayout(shape, std::move(partitions), numbers, subgroups, kind);
}

}  // namespace remesh::planner
