// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/sharding/hlo_sharding.h"
#include "planner/sharding/text_scanner.h"

namespace remesh::planner {

// The parts that the grammars of hlo_text.h and sdy_text.h share.

// "[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)" or "[2,2]0,3,2,1".
std::string PrintTiles(const TileAssignment& tiles);

// The inside of a named sharding's braces, as in "mesh['a'=2], [{'a'}]". What is replicated (or
// unreduced) over the whole mesh is "replicated" ("unreduced", whatever the reduction) without it,
// as XLA of jaxlib 0.11 writes it; its bytes keep the mesh.
std::string PrintNamed(const NamedSharding& named);

// Whether a named sharding comes next: "mesh[", "maximal_mesh[" or "single_device[", which newer
// XLA writes instead.
bool LooksAtNamed(const TextScanner& scanner);
// Parses the inside of a named sharding's braces, up to the closing brace or ", metadata=", which
// stay.
absl::StatusOr<NamedSharding> ParseNamed(TextScanner& scanner);

// Axis references, "quoted" by the given character: {"a", "b":(1)2}. With `open` set, a trailing ?
// is allowed and noted there.
absl::StatusOr<std::vector<AxisRef>> ParseAxes(TextScanner& scanner, const Mesh& mesh, char quote,
                                               bool* open);

// sum, max or min when one of these words comes next, else kSum.
ReductionOp ParseReduction(TextScanner& scanner);
std::string_view NameOf(ReductionOp op);

}  // namespace remesh::planner
