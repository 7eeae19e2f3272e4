// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include "planner/sharding/hlo_text.h"
#include "planner/sharding/to_layout.h"
#include "proto/sharding/convert_sharding.h"
#include "tests/fuzz/target.h"

// What holds of every sharding that a reader took.
namespace remesh::fuzz {

// XLA keeps tiles of one unreduced subgroup that came with subgroups of one device, though it reads
// their text as {unreduced}, and prints named shardings of the whole mesh without it; so do we.
inline bool ReadsBackPlain(const planner::HloSharding& sharding) {
  if (const auto* tuple = std::get_if<planner::Tuple>(&sharding.form)) {
    return std::any_of(tuple->leaves.begin(), tuple->leaves.end(), ReadsBackPlain);
  }
  if (std::holds_alternative<planner::NamedSharding>(sharding.form)) {
    return planner::PrintHloSharding(sharding).find("mesh[") == std::string::npos;
  }
  const auto* tiled = std::get_if<planner::Tiled>(&sharding.form);
  return tiled != nullptr &&
         tiled->subgroups == planner::Tiled::Subgroups{planner::SubgroupType::kUnreduced} &&
         tiled->tiles.dims().back() == tiled->tiles.size();
}

// `again` was read from what `sharding` prints.
inline void CheckSame(const absl::StatusOr<planner::HloSharding>& again,
                      const planner::HloSharding& sharding) {
  REMESH_CHECK(again.ok());
  REMESH_CHECK(ReadsBackPlain(sharding) || *again == sharding);
}

// Small arrays are laid out or refused.
template <typename Sharding>
void CheckPlaces(const Sharding& sharding) {
  for (const planner::Shape& shape :
       {planner::Shape{}, planner::Shape{5}, planner::Shape{4, 0}, planner::Shape{7, 17, 27}}) {
    for (const int32_t count : {1, 8, 24}) {
      const auto layout = planner::ToLayout(sharding, shape, count);
      if (layout.ok()) {
        REMESH_CHECK(layout->device_count == count);
      } else {
        CheckRefusal(layout.status());
      }
    }
  }
}

}  // namespace remesh::fuzz
