// SPDX-License-Identifier: Apache-2.0
#include "planner/values/chunked_list.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>

namespace remesh::planner {
namespace {

// A value that counts how often values of its type are copied or moved.
struct Counted {
  explicit Counted(int64_t number) : number(number) {}
  Counted(const Counted& other) : number(other.number) { ++copies; }
  Counted& operator=(const Counted& other) = default;
  int64_t number;
  static inline int64_t copies = 0;
};

using CountedList = ChunkedList<Counted>;
constexpr int64_t kCountedChunk = CountedList::kChunk;

// `count` values, and the most copies that any one of them made.
CountedList Filled(int64_t count, int64_t& most_copied) {
  CountedList list;
  most_copied = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t before = Counted::copies;
    list.push_back(Counted(i));
    most_copied = std::max(most_copied, Counted::copies - before);
  }
  return list;
}

TEST(ChunkedListTest, AValueMoreCopiesNoMoreThanAChunk) {
  int64_t most_copied = 0;
  const CountedList list = Filled(9 * kCountedChunk, most_copied);
  EXPECT_EQ(list.size(), 9u * kCountedChunk);
  EXPECT_LE(most_copied, kCountedChunk);
}

TEST(ChunkedListTest, AListAsLongAsExpectedIsNeverCopied) {
  constexpr int64_t kExpected = 3 * kCountedChunk;
  CountedList list(kExpected);
  for (int64_t i = 0; i < kExpected; ++i) list.push_back(Counted(i));
  const int64_t before = Counted::copies;
  const std::vector<Counted> all = std::move(list).Take(Budget::Unlimited());
  EXPECT_EQ(Counted::copies, before);
  EXPECT_EQ(std::ssize(all), kExpected);
}

TEST(ChunkedListTest, ALongerListThanExpectedKeepsItsOrder) {
  CountedList list(3 * kCountedChunk);
  for (int64_t i = 0; i < 5 * kCountedChunk; ++i) list.push_back(Counted(i));
  EXPECT_EQ(list.size(), 5u * kCountedChunk);
  const std::vector<Counted> all = std::move(list).Take(Budget::Unlimited());
  ASSERT_EQ(std::ssize(all), 5 * kCountedChunk);
  for (int64_t i = 0; i < std::ssize(all); ++i) ASSERT_EQ(all[i].number, i);
}

TEST(ChunkedListTest, BetweenTwoLooksNoMoreThanAChunkIsCopied) {
  int64_t ignored = 0, looks = 0, most_copied = 0;
  CountedList list = Filled(5 * kCountedChunk + 7, ignored);
  int64_t before = Counted::copies;
  Budget budget([&] {
    ++looks;
    most_copied = std::max(most_copied, Counted::copies - before);
    before = Counted::copies;
    return absl::OkStatus();
  });
  const std::vector<Counted> all = std::move(list).Take(budget);
  most_copied = std::max(most_copied, Counted::copies - before);
  EXPECT_EQ(looks, 6);
  EXPECT_EQ(most_copied, kCountedChunk);
}

TEST(ChunkedListTest, ValuesComeInTheirOrder) {
  for (const int64_t count :
       {int64_t{0}, int64_t{5}, kCountedChunk, kCountedChunk + 1, 3 * kCountedChunk}) {
    SCOPED_TRACE(count);
    int64_t ignored = 0;
    const std::vector<Counted> all = Filled(count, ignored).Take(Budget::Unlimited());
    ASSERT_EQ(std::ssize(all), count);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(all[i].number, i);
  }
}

TEST(ChunkedListTest, ASpentBudgetEndsTheCopying) {
  int64_t ignored = 0;
  CountedList list = Filled(5 * kCountedChunk, ignored);
  Budget budget([] { return absl::CancelledError("no caller waits"); });
  const int64_t before = Counted::copies;
  (void)std::move(list).Take(budget);
  EXPECT_EQ(Counted::copies, before);
}

}  // namespace
}  // namespace remesh::planner
