// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh {

// Levenshtein's distance: single characters put in, taken out or replaced.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that `name` is most likely a slip of, the first of equals; "" when none is near: at
// most a third of the characters may differ, or two.
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

// "; did you mean "x"?", or "" when nothing is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace remesh
