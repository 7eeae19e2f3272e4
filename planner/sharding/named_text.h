// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/sharding/hlo_sharding.h"
#include "planner/sharding/text_scanner.h"

namespace remesh::planner {

// What the grammars of hlo_text.h and sdy_text.h have in common.

// "[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)" or "[2,2]0,3,2,1".
std::string PrintTiles(const TileAssignment& tiles);

// The text between a named sharding's braces, as in "mesh['a'=2], [{'a'}]". A sharding that is
// replicated (or unreduced) over the whole mesh prints as "replicated" ("unreduced=max") without
// the mesh, as XLA of jaxlib 0.11 writes it; its bytes keep the mesh.
std::string PrintNamed(const NamedSharding& named);

// Whether a named sharding comes next: "mesh[", "maximal_mesh[", or "single_device[", which newer
// XLA writes for "maximal_mesh[".
bool LooksAtNamed(const TextScanner& scanner);
// Parses the text between a named sharding's braces, up to but without the closing brace or ",
// metadata=".
absl::StatusOr<NamedSharding> ParseNamed(TextScanner& scanner);

// Axis references with names in `quote` characters: {"a", "b":(1)2}. If `open` is not null, allows
// a trailing ? and notes it there.
absl::StatusOr<std::vector<AxisRef>> ParseAxes(TextScanner& scanner, const Mesh& mesh, char quote,
                                               bool* open);

// The axes of a mesh: ["a"=2, "b"=4], with names in `quote` characters.
absl::StatusOr<std::vector<MeshAxis>> ParseMeshAxes(TextScanner& scanner, char quote);
std::string QuotedName(const std::string& name, char quote);
// What stands behind the mesh: [{"a"}, {?}], replicated={"b"}.
std::string PrintAxes(const NamedSharding& named, char quote);

// Takes "sum", "max" or "min" when it comes next and returns it, else kSum.
ReductionOp ParseReduction(TextScanner& scanner);
std::string_view NameOf(ReductionOp op);
// "unreduced" for sums, else "unreduced=max" or "unreduced=min".
std::string PrintUnreduced(ReductionOp op);

}  // namespace remesh::planner
