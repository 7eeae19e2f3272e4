// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh::service {

// The last lines that this process logged, without newlines: at most 1000 lines and 512 KiB.
// Thread-safe.
std::vector<std::string> RecentLogLines();

// Called by Log(). Shortens the line to 4 KiB, at the boundary of a character.
void RememberLogLine(std::string_view line);

}  // namespace remesh::service
