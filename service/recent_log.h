// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace remesh::service {

// What this process logged last, without newlines: at most 1000 lines and 512 KiB. Thread-safe.
std::vector<std::string> RecentLogLines();

// For Log(). A line is shortened to 4 KiB, between characters.
void RememberLogLine(std::string_view line);

}  // namespace remesh::service
