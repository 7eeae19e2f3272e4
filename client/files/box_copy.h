// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "planner/values/box.h"
#include "planner/values/element_type.h"

namespace remesh::client {

// Bytes of a dense row-major buffer of `elements` elements, packed below a byte.
size_t DenseBytes(planner::ElementType type, int64_t elements);

// Copies `box` between a whole array (dense row-major over `shape`) and a shard (dense row-major
// over the box). Elements below a byte lie packed in both; bits outside the box stay as they are.
// REQUIRES: box within shape; spans of DenseBytes() of array and box.
void ReadBox(planner::ElementType type, const planner::Shape& shape, const planner::Box& box,
             absl::Span<const std::byte> array, absl::Span<std::byte> shard);
void WriteBox(planner::ElementType type, const planner::Shape& shape, const planner::Box& box,
              absl::Span<const std::byte> shard, absl::Span<std::byte> array);

}  // namespace remesh::client
