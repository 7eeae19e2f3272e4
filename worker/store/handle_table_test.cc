// SPDX-License-Identifier: Apache-2.0
#include "worker/store/handle_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/keeper/testing/descriptors.h"

namespace remesh::worker {
namespace {

TEST(HandleTableTest, WhatIsBroughtIsTakenOnceAndNotForEver) {
  HandleTable table;
  const absl::Time now = absl::Now();
  const auto bring = [&](absl::Time at) { return table.Bring(Fd(dup(0)), 1, at); };
  const std::string token = bring(now);
  EXPECT_FALSE(table.Take("", now));
  EXPECT_TRUE(table.Take(token, now));
  EXPECT_FALSE(table.Take(token, now));
  const std::string old = bring(now);
  EXPECT_FALSE(table.Take(old, now + HandleTable::kBroughtAge + absl::Seconds(1)));
  const std::string first = bring(now);
  for (size_t i = 0; i < HandleTable::kBroughtMax; ++i) bring(now);
  EXPECT_FALSE(table.Take(first, now));
}

TEST(HandleTableTest, WhoFloodsTheTableLosesHisOwn) {
  HandleTable table;
  const absl::Time now = absl::Now();
  const auto bring = [&](uid_t uid) { return table.Bring(Fd(dup(0)), uid, now); };
  const std::string others = bring(1);
  const std::string oldest = bring(2);
  for (size_t i = 0; i < 3 * HandleTable::kBroughtMax; ++i) bring(2);
  const std::string newest = bring(2);
  EXPECT_TRUE(table.Take(others, now));
  EXPECT_FALSE(table.Take(oldest, now));
  EXPECT_TRUE(table.Take(newest, now));
}

// Descriptors of loans that wait to be opened were limited by nothing.
TEST(HandleTableTest, WhatIsTakenCountsForItsUserUntilItIsLetGo) {
  HandleTable table;
  const absl::Time now = absl::Now();
  const auto bring = [&](uid_t uid) { return table.Bring(Fd(dup(0)), uid, now); };
  std::vector<std::shared_ptr<const Fd>> taken;
  for (size_t i = 0; i < HandleTable::kBroughtMax; ++i) taken.push_back(table.Take(bring(1), now));
  EXPECT_FALSE(table.Take(bring(1), now));
  EXPECT_TRUE(table.Take(bring(2), now));
  taken.pop_back();
  EXPECT_TRUE(table.Take(bring(1), now));
}

TEST(HandleTableTest, OfUsersWhoHaveAsManyTheNewcomerLoses) {
  HandleTable table;
  const absl::Time now = absl::Now();
  std::map<uid_t, std::string> firsts;
  // With one descriptor too many, all five users have equally many.
  ASSERT_EQ((HandleTable::kBroughtMax + 1) % 5, 0u);
  for (size_t i = 0; i <= HandleTable::kBroughtMax; ++i) {
    const uid_t uid = 1 + i % 5;
    firsts.emplace(uid, table.Bring(Fd(dup(0)), uid, now));  // keeps the first token of each user
  }
  EXPECT_FALSE(table.Take(firsts[5], now));
  for (uid_t uid = 1; uid < 5; ++uid) EXPECT_TRUE(table.Take(firsts[uid], now)) << uid;
}

TEST(HandleTableTest, WhatNoCallTakesIsClosedInTime) {
  HandleTable table;
  const absl::Time now = absl::Now();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const Fd reader(ends[0]);
  EXPECT_EQ(table.CloseOld(now), absl::InfiniteDuration());
  table.Bring(Fd(ends[1]), 1, now);
  const absl::Duration left = table.CloseOld(now);
  EXPECT_LE(left, HandleTable::kBroughtAge + absl::Seconds(1));
  char byte;
  EXPECT_EQ(read(reader.get(), &byte, 1), -1);  // a writer still exists
  EXPECT_EQ(table.CloseOld(now + left), absl::InfiniteDuration());
  pollfd gone{reader.get(), 0, 0};
  EXPECT_EQ(poll(&gone, 1, 10'000), 1);  // and is soon gone
}

TEST(HandleTableTest, NoCallWaitsUntilWhatWasNotTakenIsClosed) {
  HandleTable table;
  const absl::Time now = absl::Now();
  LingeringSocket socket = NewLingeringSocket();
  table.Bring(std::move(socket.slow), 1, now);
  EXPECT_TRUE(
      EndsBefore(std::move(socket), [&] { table.CloseOld(now + 2 * HandleTable::kBroughtAge); }));
}

TEST(HandleTableTest, NoCallWaitsUntilWhatIsTooMuchIsClosed) {
  HandleTable table;
  const absl::Time now = absl::Now();
  LingeringSocket socket = NewLingeringSocket();
  table.Bring(std::move(socket.slow), 1, now);
  EXPECT_TRUE(EndsBefore(std::move(socket), [&] {
    for (size_t i = 0; i < HandleTable::kBroughtMax; ++i) table.Bring(Fd(dup(0)), 1, now);
  }));
}

}  // namespace
}  // namespace remesh::worker
