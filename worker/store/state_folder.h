// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace remesh::worker {

// A file name for the state `name`, whatever it holds: letters, digits, '-' and '_' stay, every
// other byte becomes %XX; past 180 characters the rest is replaced by '~' and a hash of the name.
// Never starts with a dot. Two states share one only if their hashes collide.
//   "jobs/a/states/b" -> "jobs%2Fa%2Fstates%2Fb"
std::string StateFolder(std::string_view name);

}  // namespace remesh::worker
