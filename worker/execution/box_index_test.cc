// SPDX-License-Identifier: Apache-2.0
#include "worker/execution/box_index.h"

#include <gtest/gtest.h>

#include <random>

namespace remesh::worker {

using planner::Box;

namespace {

class Boxes {
 public:
  explicit Boxes(uint64_t seed) : random_(seed) {}

  Box Next(int rank, int64_t extent, int64_t size_max) {
    Box box;
    for (int d = 0; d < rank; ++d) {
      const int64_t lo = Uniform(0, extent - 1);
      box.dims.push_back({lo, std::min(extent, lo + Uniform(1, size_max))});
    }
    return box;
  }
  int64_t Uniform(int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random_);
  }

 private:
  std::mt19937_64 random_;
};

TEST(BoxIndexTest, FindsWhatALookAtEachFinds) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Boxes random(seed);
    const auto rank = static_cast<int>(random.Uniform(0, 3));
    const int64_t size_max = random.Uniform(1, 20);
    BoxIndex index;
    std::vector<Box> boxes;
    for (int i = 0; i < 100; ++i) {
      boxes.push_back(random.Next(rank, 40, size_max));
      index.Add(boxes.back());
      const Box query = random.Next(rank, 40, size_max);
      std::vector<int> expected;
      for (size_t b = 0; b < boxes.size(); ++b) {
        if (planner::Intersect(boxes[b], query)) expected.push_back(static_cast<int>(b));
      }
      ASSERT_EQ(index.Meeting(query), expected);
    }
  }
}

}  // namespace
}  // namespace remesh::worker
