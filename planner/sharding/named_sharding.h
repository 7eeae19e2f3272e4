// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "planner/sharding/mesh.h"

namespace remesh::planner {

// How the partial results of unreduced devices combine.
enum class ReductionOp : int8_t { kSum, kMax, kMin };

// A sharding over the named axes of a mesh (XLA's "V3", JAX's NamedSharding, Shardy's
// TensorSharding). A value.
struct NamedSharding {
  // The axes that cut one array dimension, major to minor. Propagation may cut an open dimension
  // further; this has no meaning for a concrete placement.
  struct Dim {
    std::vector<AxisRef> axes;
    bool open = false;

    friend bool operator==(const Dim&, const Dim&) = default;
  };

  Mesh mesh;
  std::vector<Dim> dims;            // empty: an array of any rank, no dimension of which is cut
  std::vector<AxisRef> replicated;  // named explicitly; axes named nowhere are replicated too
  std::vector<AxisRef> unreduced;   // devices along these hold partial results
  std::vector<AxisRef> manual;      // devices along these hold values of their own
  ReductionOp reduction = ReductionOp::kSum;

  friend bool operator==(const NamedSharding&, const NamedSharding&) = default;
};

// Validates `sharding` and makes it canonical: joins neighbouring parts of an axis, sorts
// replicated axes, and sets the reduction to kSum where nothing is unreduced; a maximal mesh has no
// dims. INVALID_ARGUMENT without a field: bad references (CheckAxisRef), parts of an axis that are
// used twice or do not nest, axes on a mesh without any.
absl::StatusOr<NamedSharding> Canonicalized(NamedSharding sharding);

}  // namespace remesh::planner
