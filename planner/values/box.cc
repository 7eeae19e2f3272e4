// SPDX-License-Identifier: Apache-2.0
#include "planner/values/box.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"

namespace remesh::planner {
namespace {

constexpr int kRankMax = 32;
constexpr int64_t kBitsMax = int64_t{1} << 62;

}  // namespace

int64_t ElementCount(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

absl::Status ValidateShape(absl::Span<const int64_t> shape, int bits_per_element) {
  if (shape.size() > kRankMax) {
    return InvalidField("shape", absl::StrJoin(shape, ","), "must have at most 32 dimensions");
  }
  int64_t bits = bits_per_element;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0) {
      return InvalidField(absl::StrCat("shape[", d, "]"), absl::StrCat(shape[d]), "must be >= 0");
    }
    if (shape[d] > 0 && bits > kBitsMax / shape[d]) {
      return InvalidField("shape", absl::StrJoin(shape, ","), "must hold less than 2^62 bits");
    }
    if (shape[d] > 0) bits *= shape[d];
  }
  return absl::OkStatus();
}

Box Box::Whole(absl::Span<const int64_t> shape) {
  Box box;
  for (int64_t extent : shape) box.dims.push_back({0, extent});
  return box;
}

int64_t Box::element_count() const {
  int64_t count = 1;
  for (const Interval& dim : dims) count *= dim.size();
  return count;
}

Shape Box::shape() const {
  Shape shape;
  for (const Interval& dim : dims) shape.push_back(dim.size());
  return shape;
}

bool Box::Contains(const Box& other) const {
  REMESH_CHECK(rank() == other.rank());
  for (int d = 0; d < rank(); ++d) {
    if (other.dims[d].lo < dims[d].lo || other.dims[d].hi > dims[d].hi) return false;
  }
  return true;
}

std::string Box::DebugString() const {
  return absl::StrCat("[",
                      absl::StrJoin(dims, ",",
                                    [](std::string* out, const Interval& dim) {
                                      absl::StrAppend(out, dim.lo, ":", dim.hi);
                                    }),
                      "]");
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  REMESH_CHECK(a.rank() == b.rank());
  Box common;
  for (int d = 0; d < a.rank(); ++d) {
    const Interval dim{std::max(a.dims[d].lo, b.dims[d].lo), std::min(a.dims[d].hi, b.dims[d].hi)};
    if (dim.lo >= dim.hi) return std::nullopt;
    common.dims.push_back(dim);
  }
  return common;
}

Box RelativeTo(const Box& box, const Box& frame) {
  REMESH_CHECK(frame.Contains(box));
  Box relative = box;
  for (int d = 0; d < box.rank(); ++d) {
    relative.dims[d].lo -= frame.dims[d].lo;
    relative.dims[d].hi -= frame.dims[d].lo;
  }
  return relative;
}

}  // namespace remesh::planner
