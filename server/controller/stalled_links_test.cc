// SPDX-License-Identifier: Apache-2.0
#include "server/controller/stalled_links.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

using Links = std::vector<std::string>;

class StalledLinksTest : public testing::Test {
 protected:
  void Said(const std::string& host, const std::string& receives_from,
            const std::string& sends_to) {
    links_.Said(host, {"LINK_STALLED", {{"receives_from", receives_from}, {"sends_to", sends_to}}},
                kHosts);
  }
  const std::vector<std::string> kHosts = {"a", "b", "c", "d"};
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
  links_.Said("a", {}, kHosts);
  links_.Said("c", {"SOURCE_MODIFIED", {{"receives_from", "b"}}}, kHosts);
  EXPECT_EQ(links_.Named(), Links({"a->b", "b->c"}));
}

TEST_F(StalledLinksTest, StrangersAndTooManyAreNotNamed) {
  Said("a", "x,,b,a b", "");
  links_.Said("b", {}, kHosts);
  EXPECT_EQ(links_.Named(), Links({"b->a"}));
  StalledLinks many;
  std::vector<std::string> hosts;
  for (int i = 10; i < 30; ++i) hosts.push_back("h" + std::to_string(i));
  many.Said("h10", {}, hosts);
  for (const std::string& host : hosts)
    if (host != "h10") many.Said(host, {"LINK_STALLED", {{"receives_from", "h10"}}}, hosts);
  EXPECT_EQ(many.Named().size(), size_t{StalledLinks::kNamedMax});
}

}  // namespace
}  // namespace remesh::server
