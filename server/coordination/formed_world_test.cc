// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/formed_world.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "remesh/v1/coordination.pb.h"

namespace remesh::server::coordination {
namespace {

TEST(FormedWorldTest, BothPartsAreOneEvent) {
  FormedWorld world;
  world.epoch = 300;
  for (int rank = 0; rank < 1000; ++rank) {
    world.members.push_back({.nonce = "secret",
                             .host = absl::StrCat("host-", rank),
                             .pid = 7 + rank,
                             .device_ids = {rank, rank + 1},
                             .data = "there"});
  }
  v1::WorldEvent event;
  ASSERT_TRUE(event.ParseFromString(world.EventHead(999) + world.EventRest()));
  EXPECT_EQ(event.formed().epoch(), 300);
  EXPECT_EQ(event.formed().rank(), 999);
  ASSERT_EQ(event.formed().members_size(), 1000);
  const v1::WorldMember& last = event.formed().members(999);
  EXPECT_EQ(last.ShortDebugString(),
            "rank: 999 host: \"host-999\" pid: 1006 device_ids: 999 device_ids: 1000 data: "
            "\"there\"");
}

// Regression: each of n members had a copy of n, 13 GB for 10,000.
TEST(FormedWorldTest, WhatAllGetIsThereOnce) {
  FormedWorld world;
  world.members.resize(1000);
  EXPECT_EQ(&world.EventRest(), &world.EventRest());
  EXPECT_LT(world.EventHead(0).size(), 16u);
}

TEST(FormedWorldTest, AMemberThatIsBackIsToldOfNoOther) {
  FormedWorld world;
  world.epoch = 1;
  v1::WorldEvent event;
  ASSERT_TRUE(event.ParseFromString(world.EventHead(0) + world.EventRest()));
  EXPECT_TRUE(event.has_formed());
  EXPECT_EQ(event.formed().members_size(), 0);
}

}  // namespace
}  // namespace remesh::server::coordination
