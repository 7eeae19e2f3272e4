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
  void Report(const std::string& host, const std::string& receives_from,
              const std::string& sends_to) {
    links_.Report(host,
                  {"LINK_STALLED", {{"receives_from", receives_from}, {"sends_to", sends_to}}});
  }
  StalledLinks links_;
};

TEST_F(StalledLinksTest, ALinkAtWhichBothEndsAreStalls) {
  Report("a", "", "b");
  EXPECT_EQ(links_.Named(), Links()) << "b has said nothing";
  Report("b", "a", "");
  EXPECT_EQ(links_.Named(), Links({"a->b"}));
}

TEST_F(StalledLinksTest, WhoWaitsForOneThatWaitsIsNotToBlame) {
  Report("a", "", "b");
  Report("b", "a", "");
  Report("c", "b", "");  // b has nothing for c before it has it from a
  Report("d", "c", "");
  EXPECT_EQ(links_.Named(), Links({"a->b"}));
}

TEST_F(StalledLinksTest, WhoWaitsForNoHostIsToBlame) {
  Report("b", "a", "c");
  links_.Report("a", {});
  links_.Report("c", {"SOURCE_MODIFIED", {{"receives_from", "b"}}});
  EXPECT_EQ(links_.Named(), Links({"a->b", "b->c"}));
}

TEST_F(StalledLinksTest, StrangersAndTooManyAreNotNamed) {
  Report("a", "x,,b,a b", "");
  links_.Report("b", {});
  EXPECT_EQ(links_.Named(), Links({"b->a"}));
  StalledLinks many;
  many.Report("h", {});
  for (int i = 0; i < 20; ++i)
    many.Report("h" + std::to_string(i), {"LINK_STALLED", {{"receives_from", "h"}}});
  EXPECT_EQ(many.Named().size(), StalledLinks::kNamedMax);
}

}  // namespace
}  // namespace remesh::server
