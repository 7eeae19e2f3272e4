// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh::proto {

// A place in a text; both count from 1. 0: unknown.
struct TextPlace {
  size_t line = 0;
  size_t column = 0;
};

// The place in a text (YAML or JSON) of each field, given by its path as in "arrays[3].source.ref"
// or "shardings[rows].hlo_text", or else of the innermost part of it that the text has. A path may
// begin with up to two names that the text lacks, such as "state.spec": a text is often a part of a
// request.
std::vector<TextPlace> FindPlaces(std::string_view text, const std::vector<std::string>& fields);

}  // namespace remesh::proto
