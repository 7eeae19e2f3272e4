// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh {

// Levenshtein's distance: the least number of single characters to insert, delete or replace.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that `name` most likely misspells, the first among equals. At most a third of the
// characters may differ, or two; "" when no candidate is that near. Compares the first 10,000
// candidates, because it takes time for each.
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

// Those of the candidates in which each part between slashes is equal or near that of `name`, so that
// the parts which all names share do not make different ones look alike: of "jobs/a/states/w" the name
// "jobs/a/states/v", but not "jobs/a/states/optimizer".
std::vector<std::string> NearInEachPart(std::string_view name,
                                        const std::vector<std::string>& candidates);

// "; did you mean "x"?" for a name that is not in `names`, or ", which has ..." with the first of
// them, to be said of what has them.
std::string KnownNames(std::string_view name, const std::vector<std::string>& names);

// "; did you mean "x"?", or "" when no candidate is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace remesh
