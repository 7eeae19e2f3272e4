// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/placed_arrays.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/missing_field.h"
#include "proto/convert/type_names.h"

namespace remesh::proto {

absl::StatusOr<planner::ElementType> ElementTypeOf(const std::string& name) {
  absl::StatusOr<planner::ElementType> type = planner::ParseElementType(name);
  if (type.ok()) return type;
  constexpr char kExpectation[] = "must be an XLA element type such as bf16, f32 or s4";
  if (name.empty()) return MissingField("element_type", absl::StrCat("it ", kExpectation));
  const std::string xla = NearestXlaType(name);
  if (!xla.empty()) {
    return InvalidField("element_type", name,
                        absl::StrCat(kExpectation, "; did you mean \"", xla, "\"?"));
  }
  return InvalidField("element_type", name,
                      absl::StrCat("must be the name of an XLA element type: ",
                                   absl::StrJoin(planner::ElementTypeNames(), ", ")));
}

}  // namespace remesh::proto
