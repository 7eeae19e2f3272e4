// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace remesh::planner {

// Addresses for pieces of memory that come and go, each the lowest that has room: an area, laid out
// before there is any memory.
class FirstFit {
 public:
  // Areas as large as that are laid out no further: nobody has so much.
  static constexpr int64_t kMost = int64_t{1} << 60;

  // Of gaps the lowest so many are tried.
  static constexpr int kHolesTried = 256;

  // An address with so many bytes free from it on.
  int64_t Take(int64_t bytes);
  // What Take() gave out is free.
  void Give(int64_t at, int64_t bytes);

  // How large the area has to be for all that was taken so far.
  int64_t most() const { return most_; }

 private:
  std::map<int64_t, int64_t> holes_;  // address -> bytes, all below top_; no two adjoin
  int64_t top_ = 0;                   // nothing is taken from here on
  int64_t most_ = 0;
};

}  // namespace remesh::planner
