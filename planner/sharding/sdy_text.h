// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "planner/sharding/named_sharding.h"

namespace remesh::planner {

// The text of Shardy's attributes: one sharding, with the definition of its mesh inline, before it
// or after it:
//
//   text     := mesh_def* sharding mesh_def*
//   mesh_def := sdy.mesh @name = <mesh>
//   mesh     := ["a"=2, "b"=4] [, device_ids=[7, 6, ...]]     one id and no axis: that device alone
//   sharding := #sdy.sharding< (@name | mesh<mesh>), [dim, ...]
//               (, replicated={axes} | , unreduced=[op]{axes} | , manual={axes})* >
//   dim      := {axis, ... [, ?]} [pN]
//   axis     := "name" [:(pre_size)size]      op := sum | max | min
//
// "?" (open to propagation) is noted and priorities pN are dropped: neither has a meaning for a
// concrete placement. Errors are INVALID_ARGUMENT, field "sdy_text", with the column and what was
// expected there. The result is Canonicalized().
absl::StatusOr<NamedSharding> ParseSdySharding(std::string_view text);

// Text as "#sdy.sharding<mesh<["a"=2]>, [{"a"}]>", with the mesh inline. Parses back to an equal
// value.
std::string PrintSdySharding(const NamedSharding& sharding);

}  // namespace remesh::planner
