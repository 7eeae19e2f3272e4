// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/sharding/hlo_sharding.h"

namespace remesh::planner {

// The text of HLO shardings, as in "{devices=[2,1,2]<=[4] last_tile_dim_replicate}":
//
//   sharding := single | '{' [single (',' single)*] '}'          '{}' is the empty tuple
//   single   := '{' item* '}' | named                            items in any order, without commas
//   item     := replicated | maximal | manual | unknown | unreduced | device=INT | devices=tiles
//             | last_tile_dim_replicate | last_tile_dims={T,...} | (shard_as | shard_like) INT |
//             metadata=...
//   tiles    := '[' INT,... ']' ( '<=' '[' INT,... ']' ['T(' INT,... ')'] | INT,... )
//   T        := maximal | replicated | manual | unreduced
//   metadata := '{' key=value ... '}' | '{' '{' key=value ... '}',... '}'
//   named    := '{' mesh [, replicated | , unreduced[=op] | , manual | , '[' dim,... ']']
//               (, replicated={axis,...} | , unreduced=[op]{axis,...} | , manual={axis,...})* [,
//               metadata=...] '}'
//   mesh     := mesh['a'=2,...] [, device_ids=( '[' INT,... ']' 'T(' INT,... ')' | INT,... )]
//             | (maximal_mesh | single_device)[device_id=INT]
//   dim      := '{' axis,... [, ?] '}'      axis := 'name' [:(INT)INT]      op := sum | max | min
//
// Unlike XLA's parser, this one refuses two kinds in one sharding, repeated items, and tile
// assignments that are not a permutation. Errors are INVALID_ARGUMENT, field "hlo_text", with the
// column and what was expected there. Takes time linear in the text.
absl::StatusOr<HloSharding> ParseHloSharding(std::string_view text);

// XLA's canonical text, without metadata. Where XLA's text cannot express a reduction other than
// SUM, metadata carries it, as in XLA's protos. Parses back to an equal value, except named
// shardings that print without their mesh (named_text.h): those parse back to a replicated or
// unreduced sharding without a mesh.
std::string PrintHloSharding(const HloSharding& sharding);

}  // namespace remesh::planner
