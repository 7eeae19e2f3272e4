// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace remesh::worker {

// Removes folders of the buffer directory. A folder is moved out of the way first, so that a crash
// in the middle leaves no half of it. Not thread-safe.
class Trash {
 public:
  explicit Trash(std::string directory) : directory_(std::move(directory)) {}

  // Removes the folder with all that is in it, and the one that it is in, if it was the last there.
  void Remove(const std::string& folder);

  // Whether an earlier life moved the folder out of the way, and did not come to its removal.
  static bool Has(const std::string& folder);

 private:
  const std::string directory_;
  int64_t removed_ = 0;
};

}  // namespace remesh::worker
