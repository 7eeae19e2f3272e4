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
inline bool ReadsBackPlain(const HloSharding& sharding) {
  if (const auto* tuple = std::get_if<Tuple>(&sharding.form)) {
    return std::any_of(tuple->leaves.begin(), tuple->leaves.end(), ReadsBackPlain);
  }
  if (std::holds_alternative<NamedSharding>(sharding.form)) {
    return PrintHloSharding(sharding).find("mesh[") == std::string::npos;
  }
  const auto* tiled = std::get_if<Tiled>(&sharding.form);
  return tiled != nullptr && tiled->subgroups == Tiled::Subgroups{SubgroupType::kUnreduced} &&
         tiled->tiles.dims().back() == tiled->tiles.size();
}

// `again` was read from what `sharding` prints.
inline void CheckSame(const absl::StatusOr<HloSharding>& again, const HloSharding& sharding) {
  REMESH_CHECK(again.ok());
  REMESH_CHECK(ReadsBackPlain(sharding) || *again == sharding);
}

// Small arrays are laid out or refused.
template <typename Sharding>
void CheckPlaces(const Sharding& sharding) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{4, 0}, Shape{7, 17, 27}}) {
    for (const int32_t count : {1, 8, 24}) {
      const auto layout = ToLayout(sharding, shape, count);
      if (layout.ok()) {
        REMESH_CHECK(layout->device_count == count);
      } else {
        CheckRefusal(layout.status());
      }
    }
  }
}

}  // namespace remesh::fuzz
