// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace remesh {

// Text of others as it may be shown to people. Escapes what a terminal obeys or does not show: other
// control characters than tab and newline as \x1b, characters that turn, join or hide text as
// \u202e, and bytes that are not UTF-8 as \xff. Visible text stays as it is, backslashes too.
std::string Visible(std::string_view text);

}  // namespace remesh
