// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/values/element_type.h"
#include "proto/convert/plan_spec.h"
#include "proto/convert/shardings.h"

namespace remesh::proto {

// ParseElementType(), whose error suggests XLA's name when `name` is another framework's.
absl::StatusOr<planner::ElementType> ElementTypeOf(const std::string& name);

// Converts one side of an array message (v1::ArraySpec, v1::StateArray), which is arrays[index] of
// its spec: its name, shape and type, and `sharding`, its field called `side`.
template <typename ArrayMessage>
absl::StatusOr<PlacedArray> ToPlacedArray(const ArrayMessage& array, int index,
                                          const std::string& side, const v1::Sharding& sharding,
                                          Shardings& shardings) {
  const auto path = [&] { return absl::StrCat("arrays[", index, "]"); };  // for errors only
  PlacedArray value{.name = array.name(),
                    .shape = planner::Shape(array.shape().begin(), array.shape().end())};
  if (value.name.empty()) return InvalidField(path() + ".name", "", "must not be empty");
  auto type = ElementTypeOf(array.element_type());
  if (!type.ok()) return AtField(path(), type.status());
  value.element_type = *type;
  const absl::Status valid =
      planner::ValidateShape(value.shape, planner::BitWidth(value.element_type));
  if (!valid.ok()) return AtField(path(), valid);
  ASSIGN_OR_RETURN(value.placement, shardings.Resolve(sharding, value.shape, [&] {
    return absl::StrCat(path(), ".", side);
  }));
  return value;
}

}  // namespace remesh::proto
