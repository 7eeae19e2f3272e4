// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace remesh::worker {

// A file name for the state `name`, whatever the name contains. Letters, digits, '-' and '_' stay;
// every other byte becomes %XX. After 180 characters, '~' and a hash of the name replace the rest.
// The result never starts with a dot. Two states share it only if their hashes collide.
//   "jobs/a/states/b" -> "jobs%2Fa%2Fstates%2Fb"
std::string StateFolder(std::string_view name);

}  // namespace remesh::worker
