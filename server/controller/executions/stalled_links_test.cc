// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/stalled_links.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace remesh::server {
namespace {

using Links = std::set<std::string>;

class StalledLinksTest : public testing::Test {
 protected:
  void Said(const std::string& host, const std::string& receives_from,
            const std::string& sends_to) {
    links_.Said(host, {"LINK_STALLED", {{"receives_from", receives_from}, {"sends_to", sends_to}}});
  }
  StalledLinks links_;
};

TEST_F(StalledLinksTest, ALinkAtWhichBothEndsAreStalls) {
  Said("a", "", "b");
  EXPECT_EQ(links_.Named(), Links()) << "b has said nothing";
  Said("b", "a", "");
  EXPECT_EQ(links_.Named(), Links({"a->b"}));
}

TEST_F(StalledLinksTest, WhoWaitsForOneThatWaitsIsNotToBlame) {
  Said("a", "", "b");
  Said("b", "a", "");
  Said("c", "b", "");  // b has nothing for c before it has it from a
  Said("d", "c", "");
  EXPECT_EQ(links_.Named(), Links({"a->b"}));
}

TEST_F(StalledLinksTest, WhoWaitsForNobodyIsToBlame) {
  Said("b", "a", "c");
  links_.Said("a", {});
  links_.Said("c", {"SOURCE_MODIFIED", {{"receives_from", "b"}}});
  EXPECT_EQ(links_.Named(), Links({"a->b", "b->c"}));
}

TEST_F(StalledLinksTest, StrangersAndTooManyAreNotNamed) {
  Said("a", "x,,b,a b", "");
  links_.Said("b", {});
  EXPECT_EQ(links_.Named(), Links({"b->a"}));
  StalledLinks many;
  many.Said("h", {});
  for (int i = 0; i < 20; ++i)
    many.Said("h" + std::to_string(i), {"LINK_STALLED", {{"receives_from", "h"}}});
  EXPECT_EQ(many.Named().size(), StalledLinks::kNamedMax);
}

}  // namespace
}  // namespace remesh::server
