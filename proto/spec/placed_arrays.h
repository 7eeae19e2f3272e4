// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/element_type.h"
#include "proto/spec/plan_spec.h"
#include "proto/spec/shardings.h"

namespace remesh {

// One side of an array message (v1::ArraySpec, v1::StateArray): its name, shape and type, and
// `sharding`, its field called `side`. `field` is the array's path, as in "arrays[3]".
template <typename ArrayMessage>
absl::StatusOr<PlacedArray> ToPlacedArray(const ArrayMessage& array, const std::string& side,
                                          const v1::Sharding& sharding, const std::string& field,
                                          Shardings& shardings) {
  PlacedArray value{.name = array.name(),
                    .shape = Shape(array.shape().begin(), array.shape().end())};
  if (value.name.empty()) return InvalidField(field + ".name", "", "must not be empty");
  auto type = ParseElementType(array.element_type());
  RETURN_IF_ERROR(AtField(field, type.status()));
  value.element_type = *type;
  RETURN_IF_ERROR(AtField(field, ValidateShape(value.shape, BitWidth(value.element_type))));
  ASSIGN_OR_RETURN(value.placement,
                   shardings.Resolve(sharding, value.shape, absl::StrCat(field, ".", side)));
  return value;
}

}  // namespace remesh
