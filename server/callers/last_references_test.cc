// SPDX-License-Identifier: Apache-2.0
#include "server/callers/last_references.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

TEST(LastReferencesTest, AValueLivesUntilUnusedOnesAreDropped) {
  LastReferences references;
  auto value = std::make_shared<const int>(1);
  const std::weak_ptr<const int> watched = value;
  references.Add(value);
  references.DropUnused();
  EXPECT_FALSE(watched.expired()) << "it is in use";
  value = nullptr;
  EXPECT_FALSE(watched.expired()) << "its last user does not free it";
  references.DropUnused();
  EXPECT_TRUE(watched.expired());
}

// Many calls may bring the same value.
TEST(LastReferencesTest, AValueThatWasAddedTwiceIsDropped) {
  LastReferences references;
  auto value = std::make_shared<const int>(1);
  const std::weak_ptr<const int> watched = value;
  references.Add(value);
  references.Add(std::move(value));
  references.DropUnused();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace remesh::server
