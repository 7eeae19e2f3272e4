// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/halving.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace remesh::planner {
namespace {

// All parcels, those cut off others too.
std::vector<Parcel> Dealt(std::vector<Parcel> parcels, const std::vector<int64_t>& room,
                          const std::vector<int64_t>& tolerance, int32_t rounds) {
  const std::vector<Parcel> cut_off = DealOut(parcels, room, tolerance, rounds);
  parcels.insert(parcels.end(), cut_off.begin(), cut_off.end());
  return parcels;
}

// Work of every link in every round: work[link][round].
std::vector<std::vector<int64_t>> WorkOf(const std::vector<Parcel>& dealt, size_t links,
                                         int32_t rounds) {
  std::vector<std::vector<int64_t>> work(links, std::vector<int64_t>(rounds, 0));
  for (const Parcel& parcel : dealt) {
    work[parcel.from][parcel.round] += parcel.bits;
    work[parcel.to][parcel.round] += parcel.bits;
  }
  return work;
}

TEST(HalvingTest, ALongParcelIsCutOverAllRounds) {
  const auto dealt = Dealt({{.id = 7, .from = 0, .to = 1, .bits = 900}}, {900, 900}, {0, 0}, 9);
  EXPECT_EQ(dealt.size(), 9u);
  for (const Parcel& parcel : dealt) EXPECT_EQ(parcel.id, 7);
  for (const auto& of_link : WorkOf(dealt, 2, 9)) {
    for (const int64_t bits : of_link) EXPECT_EQ(bits, 100);
  }
}

TEST(HalvingTest, OfACutParcelTheEarliestStays) {
  std::vector<Parcel> parcels = {{.id = 0, .from = 0, .to = 1, .bits = 300}};
  const auto cut_off = DealOut(parcels, {300, 300}, {0, 0}, 3);
  EXPECT_EQ(parcels[0].round, 0);
  EXPECT_EQ(parcels[0].bits, 100);
  EXPECT_EQ(cut_off.size(), 2u);
}

TEST(HalvingTest, WhatIsInNoHurryStaysWhole) {
  const std::vector<Parcel> parcels = {{.id = 0, .from = 0, .to = 2, .bits = 100},
                                       {.id = 1, .from = 1, .to = 3, .bits = 90}};
  EXPECT_EQ(Dealt(parcels, {400, 400, 400, 400}, {0, 0, 0, 0}, 4).size(), 2u);
}

TEST(HalvingTest, EqualParcelsAreNotCut) {
  std::vector<Parcel> parcels;
  for (int32_t i = 0; i < 16; ++i) {
    parcels.push_back({.id = i, .from = i / 4, .to = 4 + i % 4, .bits = 10});
  }
  const std::vector<int64_t> room(8, 40), tolerance(8, 0);
  const auto dealt = Dealt(parcels, room, tolerance, 4);
  EXPECT_EQ(dealt.size(), 16u);
  for (const auto& of_link : WorkOf(dealt, 8, 4)) {
    EXPECT_EQ(of_link, (std::vector<int64_t>{10, 10, 10, 10}));
  }
}

// Links that are always busy are equally busy in every round, up to rounding, and few parcels are
// cut.
TEST(HalvingTest, BusyLinksWorkInEveryRound) {
  constexpr int32_t kLinks = 16, kRounds = 7;
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 50; ++trial) {
    SCOPED_TRACE(trial);
    std::vector<Parcel> parcels;
    std::vector<int64_t> room(2 * kLinks, 0);
    for (int32_t i = 0; i < 100; ++i) {
      const Parcel parcel{.id = i,
                          .from = static_cast<int32_t>(random() % kLinks),
                          .to = kLinks + static_cast<int32_t>(random() % kLinks),
                          .bits = 1 + static_cast<int64_t>(random() % 100000)};
      room[parcel.from] += parcel.bits;
      room[parcel.to] += parcel.bits;
      parcels.push_back(parcel);
    }
    const auto dealt = Dealt(parcels, room, std::vector<int64_t>(2 * kLinks, 0), kRounds);
    std::map<int32_t, int64_t> bits_of;
    for (const Parcel& parcel : dealt) bits_of[parcel.id] += parcel.bits;
    for (const Parcel& parcel : parcels) EXPECT_EQ(bits_of[parcel.id], parcel.bits);
    // Each time that rounds are halved, fewer parcels are cut than there are links.
    EXPECT_LE(dealt.size(), parcels.size() + 2 * kLinks * (kRounds - 1));
    const auto work = WorkOf(dealt, 2 * kLinks, kRounds);
    for (size_t link = 0; link < work.size(); ++link) {
      for (const int64_t bits : work[link]) {
        EXPECT_NEAR(static_cast<double>(bits), static_cast<double>(room[link]) / kRounds, 200);
      }
    }
  }
}

}  // namespace
}  // namespace remesh::planner
