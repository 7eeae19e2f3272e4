// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/problems.h"
#include "base/status_macros.h"
#include "planner/values/element_type.h"
#include "proto/convert/plan_spec.h"
#include "proto/convert/shardings.h"

namespace remesh::proto {

// ParseElementType(), whose error suggests XLA's name when `name` is another framework's.
absl::StatusOr<planner::ElementType> ElementTypeOf(const std::string& name);

// Converts one side of an array message (v1::ArraySpec, v1::StateArray), which is arrays[index] of
// its spec: its name, shape and type, and `sharding`, its field called `side`. Returns all problems
// together.
template <typename ArrayMessage>
absl::StatusOr<PlacedArray> ToPlacedArray(const ArrayMessage& array, int index,
                                          const std::string& side, const v1::Sharding& sharding,
                                          Shardings& shardings) {
  const auto path = [&] { return absl::StrCat("arrays[", index, "]"); };  // for errors only
  PlacedArray value{.name = array.name(),
                    .shape = planner::Shape(array.shape().begin(), array.shape().end())};
  Problems problems;
  if (value.name.empty())
    RETURN_IF_ERROR(problems.Note(InvalidField(path() + ".name", "", "must not be empty")));
  auto type = ElementTypeOf(array.element_type());
  if (!type.ok()) RETURN_IF_ERROR(problems.Note(AtField(path(), type.status())));
  if (type.ok()) value.element_type = *type;
  const absl::Status valid =
      planner::ValidateShape(value.shape, planner::BitWidth(value.element_type));
  // Without its shape the array has no placement.
  if (!valid.ok()) {
    RETURN_IF_ERROR(problems.Note(AtField(path(), valid)));
    return problems.ToStatus();
  }
  auto placement =
      shardings.Resolve(sharding, value.shape, [&] { return absl::StrCat(path(), ".", side); });
  RETURN_IF_ERROR(problems.Note(placement.status()));
  if (!problems.empty()) return problems.ToStatus();
  value.placement = *std::move(placement);
  return value;
}

}  // namespace remesh::proto
