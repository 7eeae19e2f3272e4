// SPDX-License-Identifier: Apache-2.0
#include "worker/device/copy_past_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace remesh::worker {
namespace {

TEST(CopyPastCacheTest, CopiesEverySizeFromAndToEveryAlignment) {
  std::vector<std::byte> source(600), before(700, std::byte{0xee});
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + 1);
  for (size_t from : {0, 1, 8, 15}) {
    for (size_t to = 0; to < 66; ++to) {
      for (size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 200, 500}) {
        std::vector<std::byte> target = before, expected = before;
        std::copy_n(source.begin() + from, bytes, expected.begin() + to);
        CopyPastCache(target.data() + to, source.data() + from, bytes);
        FenceCopies();
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace remesh::worker
