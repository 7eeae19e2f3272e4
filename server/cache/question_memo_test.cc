// SPDX-License-Identifier: Apache-2.0
#include "server/cache/question_memo.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

QuestionDigest Numbered(uint8_t number) {
  QuestionDigest digest{};
  digest[0] = number;
  return digest;
}

TEST(QuestionMemoTest, RemembersWhatWasAskedLast) {
  QuestionMemo memo(2);
  for (uint8_t i = 0; i < 4; ++i) memo.Remember(Numbered(i), std::string(1, 'a' + i));
  EXPECT_EQ(memo.Find(Numbered(0)), "a");  // older, and recent again: what was older is forgotten
  EXPECT_EQ(memo.Find(Numbered(1)), std::nullopt);
  EXPECT_EQ(memo.Find(Numbered(0)), "a");
  EXPECT_EQ(memo.Find(Numbered(3)), "d");
  EXPECT_EQ(memo.Find(Numbered(9)), std::nullopt);
}

TEST(QuestionMemoTest, TheLastWordCounts) {
  QuestionMemo memo(2);
  memo.Remember(Numbered(1), "old");
  memo.Remember(Numbered(1), "new");
  EXPECT_EQ(memo.Find(Numbered(1)), "new");
}

TEST(QuestionMemoTest, EveryWordOfAQuestionCounts) {
  v1::PlanSpec spec;
  for (int i = 0; i < 40; ++i) {
    (*spec.mutable_device_lists())[std::to_string(i)].mutable_range()->set_count(i + 1);
  }
  spec.add_arrays()->set_name("a");
  v1::PlanSpec backwards;
  for (int i = 39; i >= 0; --i) {
    (*backwards.mutable_device_lists())[std::to_string(i)].mutable_range()->set_count(i + 1);
  }
  backwards.add_arrays()->set_name("a");
  EXPECT_EQ(DigestOf(spec, nullptr), DigestOf(backwards, nullptr)) << "maps have no order";
  v1::PlanSpec renamed = spec;
  renamed.mutable_arrays(0)->set_name("b");
  EXPECT_NE(DigestOf(spec, nullptr), DigestOf(renamed, nullptr));
  v1::PlanSpec donated = spec;
  donated.mutable_options()->set_donate(true);
  EXPECT_NE(DigestOf(spec, nullptr), DigestOf(donated, nullptr));
}

TEST(QuestionMemoTest, WorkersCountWhereTheSpecNamesNoHosts) {
  v1::PlanSpec spec;
  spec.add_arrays()->set_name("a");
  planner::Topology workers;
  workers.hosts.push_back({.name = "h0", .device_ids = {0, 1}});
  planner::Topology others = workers;
  others.hosts[0].device_ids = {1, 0};
  EXPECT_NE(DigestOf(spec, nullptr), DigestOf(spec, &workers));
  EXPECT_NE(DigestOf(spec, &workers), DigestOf(spec, &others));
  spec.mutable_topology()->add_hosts()->set_name("h1");
  EXPECT_EQ(DigestOf(spec, &workers), DigestOf(spec, &others));
}

}  // namespace
}  // namespace remesh::server
