// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remesh::planner {

// At most four digits and a decimal unit: "3.467 GB", "12 B".
std::string BytesText(double bytes);
// "8.668 ms", "32 ns", "0 s".
std::string SecondsText(double seconds);

}  // namespace remesh::planner
