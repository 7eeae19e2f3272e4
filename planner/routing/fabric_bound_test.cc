// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/fabric_bound.h"

#include <gtest/gtest.h>

#include <utility>

#include "planner/testing/test_network.h"

namespace remesh::planner {
namespace {

using Kind = Certificate::Kind;
using testing::MakeTestNetwork;

void AddTape(Group holders, Group needers, int64_t bits, Atoms& atoms) {
  const int32_t group = static_cast<int32_t>(atoms.groups.size());
  atoms.groups.push_back(std::move(holders));
  atoms.groups.push_back(std::move(needers));
  atoms.tapes.push_back({.holders = group, .needers = group + 1, .bits = bits});
}

TEST(FabricBoundTest, ADeviceReceivesOverFabricAndNicWhatItsHostLacks) {
  Atoms atoms;
  AddTape({0}, {2, 3}, 220, atoms);
  AddTape({1}, {2}, 220, atoms);
  const Bound bound = FabricBound(atoms, MakeTestNetwork(2, 2, 2, 1, 10));
  EXPECT_TRUE((bound.t == Rational{440, 11}));
  EXPECT_EQ(bound.certificate.kind, Kind::kIngress);
  EXPECT_EQ(bound.certificate.devices, std::vector<int32_t>{2});
}

TEST(FabricBoundTest, ADeviceSendsWhatItAloneHoldsOnce) {
  Atoms atoms;
  AddTape({0}, {2}, 220, atoms);
  AddTape({0}, {2, 3}, 220, atoms);
  AddTape({0}, {1}, 220, atoms);
  const Bound bound = FabricBound(atoms, MakeTestNetwork(2, 2, 2, 1, 10));
  EXPECT_TRUE((bound.t == Rational{660, 11}));
  EXPECT_EQ(bound.certificate.kind, Kind::kEgress);
}

// Device 4, in another host, holds it too, but nothing enters a host that holds it.
TEST(FabricBoundTest, ADeviceReceivesOverItsFabricWhatItsHostHolds) {
  Atoms atoms;
  AddTape({0, 4}, {2}, 110, atoms);
  AddTape({1, 4}, {2}, 110, atoms);
  const Bound bound = FabricBound(atoms, MakeTestNetwork(2, 4, 4, 1, 10));
  EXPECT_TRUE((bound.t == Rational{220, 10}));
  EXPECT_EQ(bound.certificate.kind, Kind::kLocalIngress);
  EXPECT_EQ(bound.certificate.devices, std::vector<int32_t>{2});
}

// The example of the header: each needer receives little, since there are many.
TEST(FabricBoundTest, FewHoldersOfAHostSendTogether) {
  Atoms atoms;
  AddTape({0}, {2}, 90, atoms);
  AddTape({1}, {3}, 10, atoms);
  AddTape({0, 1}, {4}, 50, atoms);
  AddTape({0, 1}, {5}, 50, atoms);
  const Bound bound = FabricBound(atoms, MakeTestNetwork(1, 6, 6, 1, 10));
  EXPECT_TRUE((bound.t == Rational{200, 20}));
  EXPECT_EQ(bound.certificate.kind, Kind::kLocalEgress);
  EXPECT_EQ(bound.certificate.devices, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(bound.certificate.bits, 200);
  EXPECT_EQ(bound.certificate.capacity, 20);
}

TEST(FabricBoundTest, OfTheHoldersThoseWithMostToSendBind) {
  Atoms atoms;
  AddTape({0}, {2}, 90, atoms);
  AddTape({0}, {3}, 80, atoms);
  AddTape({0, 1}, {4}, 20, atoms);
  const Bound bound = FabricBound(atoms, MakeTestNetwork(1, 6, 6, 1, 10));
  EXPECT_TRUE((bound.t == Rational{170, 10}));
  EXPECT_EQ(bound.certificate.kind, Kind::kLocalEgress);
  EXPECT_EQ(bound.certificate.devices, std::vector<int32_t>{0});
}

TEST(FabricBoundTest, WhatIsHeldWhereItIsNeededBindsNothing) {
  Atoms atoms;
  AddTape({0, 1}, {0, 1}, 100, atoms);
  const Bound bound = FabricBound(atoms, MakeTestNetwork(2, 2, 2, 1, 10));
  EXPECT_EQ(bound.t.num, 0);
  EXPECT_EQ(bound.certificate.kind, Kind::kNone);
}

}  // namespace
}  // namespace remesh::planner
