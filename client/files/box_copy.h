// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "planner/values/box.h"
#include "planner/values/element_type.h"

namespace remesh::client {

// The size of a dense row-major buffer of `elements` elements, packed below a byte.
size_t DenseBytes(planner::ElementType type, int64_t elements);

// Copy `box` between a whole array (dense row-major over `shape`) and a shard (dense row-major over
// the box). Elements smaller than a byte are packed in both; bits outside the box do not change.
// REQUIRES: the box is within the shape; the spans have DenseBytes() of the array and of the box.
void ReadBox(planner::ElementType type, const planner::Shape& shape, const planner::Box& box,
             absl::Span<const std::byte> array, absl::Span<std::byte> shard);
void WriteBox(planner::ElementType type, const planner::Shape& shape, const planner::Box& box,
              absl::Span<const std::byte> shard, absl::Span<std::byte> array);

}  // namespace remesh::client
