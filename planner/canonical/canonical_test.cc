// SPDX-License-Identifier: Apache-2.0
#include "planner/canonical/canonical.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/canonical/canonical_tree.h"

namespace remesh::planner {
namespace {

DeviceListPtr List(std::vector<int64_t> ids) {
  return std::make_shared<const DeviceList>(std::move(ids));
}

// Parts of one dimension of a 12 x 8 array, one a position.
LayoutPtr Cut(int dim, int64_t parts, const std::vector<int64_t>& part_of_position) {
  std::vector<DimPartition> partitions = {TilePartition(12, dim == 0 ? parts : 1),
                                          TilePartition(8, dim == 1 ? parts : 1)};
  return std::make_shared<const Layout>(
      MakeSeparableLayout({12, 8}, std::move(partitions), part_of_position));
}

// Rows over the four devices of two hosts become columns.
ReshardRequest RowsToColumns() {
  ReshardRequest request;
  for (int64_t h = 0; h < 2; ++h) {
    request.topology.hosts.push_back({.name = "host-" + std::to_string(h),
                                      .device_ids = {2 * h, 2 * h + 1},
                                      .nic_bytes_per_second = 5e10,
                                      .nics = 2,
                                      .fabric_bytes_per_second = 4.5e11});
  }
  const DeviceListPtr all = List({0, 1, 2, 3});
  request.arrays.push_back({.name = "w",
                            .shape = {12, 8},
                            .element_type = ElementType::kBf16,
                            .source = {Cut(0, 4, {0, 1, 2, 3}), all},
                            .target = {Cut(1, 4, {0, 1, 2, 3}), all}});
  return request;
}

std::string FingerprintOf(const ReshardRequest& request) {
  const auto canonical = Canonicalize(request);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  return canonical->canonical.fingerprint;
}

using Change = std::function<void(ReshardRequest&)>;

// Fingerprints name plans on disk and in other people's notes. If this test fails because the
// canonical form was changed on purpose, raise the format numbers (RequestFormat()): then every
// fingerprint here changes, and so does its prefix. Fingerprints must never change under the same
// number. Requests whose order is free have a number of their own; their given order is hashed.
TEST(CanonicalTest, FingerprintsAreStableAndCarryTheirFormat) {
  const std::vector<std::pair<std::string, Change>> cases = {
      {"1-78a245120119330be76b2e04893d41ef", [](ReshardRequest&) {}},
      {"1-9d25b95522d0c822a6ecdab81fee5ca9",
       [](ReshardRequest& r) { r.options.window_bytes = 4096; }},
      {"1-cd762b43cd2fdb5b85e3b6464a044475",
       [](ReshardRequest& r) {
         r.options.donate = true;
         r.options.memory_limit_bytes = 1 << 20;
         r.options.strategy = Strategy::kP2p;
       }},
      {"2-3a931d7a65439e49309ed7ec22d07c5a",
       [](ReshardRequest& r) { r.options.free_target_order = true; }},
      {"1-f209592ce320663a564542c24fbc43e0",
       [](ReshardRequest& r) {
         r.arrays[0].target = {Cut(1, 2, {0, 1}), List({2, 3})};
         r.options.lost_device_ids = {1};
         r.fallbacks.push_back(
             {.kind = Fallback::Kind::kCheckpoint, .location = "/checkpoints", .step = 7});
       }},
      {"1-aa86b60bd30777005e037984b30c6091",
       [](ReshardRequest& r) {
         r.topology.domains.push_back(
             {.name = "rack", .egress_bytes_per_second = 1e11, .ingress_bytes_per_second = 2e11});
         for (Host& host : r.topology.hosts) host.parent = "rack";
       }},
      {"1-3e7cde96d64adff44b0bb5a5d0e69081",
       [](ReshardRequest& r) {
         r.arrays.push_back(r.arrays[0]);
         r.arrays[1].name = "b";
         r.arrays[1].element_type = ElementType::kS4;
         r.arrays[1].target.memory_kind = MemoryKind::kPinnedHost;
       }},
      {"1-1c6dacb3ba4102033004e62f4117d925",
       [](ReshardRequest& r) {
         auto boxes = MakeBoxLayout(
             {12, 8}, std::vector<std::vector<Box>>{
                          {Box{.dims = {{0, 5}, {0, 8}}}},
                          {Box{.dims = {{5, 12}, {0, 3}}}, Box{.dims = {{5, 12}, {3, 8}}}}});
         ASSERT_TRUE(boxes.ok()) << boxes.status();
         r.arrays[0].source = {std::make_shared<const Layout>(*std::move(boxes)), List({3, 0})};
       }},
  };
  for (const auto& [expected, change] : cases) {
    ReshardRequest request = RowsToColumns();
    change(request);
    EXPECT_EQ(FingerprintOf(request), expected);
  }
}

TEST(CanonicalTest, CostsOfMessagesCountUnlessTheyAreTheDefault) {
  const auto fingerprint_of = [](const MessageCosts& costs) {
    ReshardRequest request = RowsToColumns();
    for (Host& host : request.topology.hosts) host.message_costs = costs;
    return FingerprintOf(request);
  };
  const std::string of_default = fingerprint_of({});
  EXPECT_EQ(of_default, FingerprintOf(RowsToColumns()));
  for (const MessageCosts& costs :
       {MessageCosts{.nic_message_seconds = 5e-6}, MessageCosts{.fabric_message_seconds = 1e-6},
        MessageCosts{.post_seconds = 3e-6}, MessageCosts{.posting_threads = 2}}) {
    EXPECT_NE(fingerprint_of(costs), of_default);
  }
}

TEST(CanonicalTest, NamesDoNotCount) {
  ReshardRequest other = RowsToColumns();
  other.arrays[0].name = "another";
  other.topology.hosts[0].name = "elsewhere";
  std::swap(other.topology.hosts[0], other.topology.hosts[1]);
  EXPECT_EQ(FingerprintOf(other), FingerprintOf(RowsToColumns()));
}

TEST(CanonicalTest, WhetherCapacitiesAreAssumedDoesNotCount) {
  ReshardRequest assumed = RowsToColumns();
  for (Host& host : assumed.topology.hosts) host.capacities_assumed = true;
  EXPECT_EQ(FingerprintOf(assumed), FingerprintOf(RowsToColumns()));
  EXPECT_EQ(Canonicalize(assumed)->canonical.request.topology,
            Canonicalize(RowsToColumns())->canonical.request.topology);
}

TEST(CanonicalTest, HostsThatNoArrayNamesDoNotCount) {
  ReshardRequest other = RowsToColumns();
  other.topology.hosts.push_back({.name = "idle",
                                  .device_ids = {8, 9},
                                  .nic_bytes_per_second = 1,
                                  .fabric_bytes_per_second = 1});
  EXPECT_EQ(FingerprintOf(other), FingerprintOf(RowsToColumns()));
}

TEST(CanonicalTest, TheSamePlacesInAnotherListAreTheSame) {
  ReshardRequest other = RowsToColumns();
  other.arrays[0].target = {Cut(1, 4, {3, 1, 0, 2}), List({3, 1, 0, 2})};
  EXPECT_EQ(FingerprintOf(other), FingerprintOf(RowsToColumns()));
  other.arrays[0].target.layout = Cut(1, 4, {3, 1, 2, 0});
  EXPECT_NE(FingerprintOf(other), FingerprintOf(RowsToColumns()));
}

// ---- the tree ----

Topology Racks() {
  Topology topology;
  for (const char* rack : {"r1", "r0"}) {
    topology.domains.push_back(
        {.name = rack, .egress_bytes_per_second = 1e10, .ingress_bytes_per_second = 1e10});
  }
  const std::vector<std::string> parents = {"r0", "r1", "r0", "r1"};
  for (int64_t h = 0; h < 4; ++h) {
    topology.hosts.push_back({.name = "h" + std::to_string(h),
                              .device_ids = {10 * h + 1, 10 * h},
                              .nic_bytes_per_second = 1e9,
                              .nics = 2,
                              .fabric_bytes_per_second = 1e11,
                              .parent = parents[h]});
  }
  return topology;
}

CanonicalTree TreeOf(const Topology& topology, const std::vector<int64_t>& special) {
  return CanonicalizeTree(
      topology, [](int64_t id) { return id / 10 != 3; },  // the devices of h3 are not used
      [&](int64_t id) {
        return Hash128{1, std::find(special.begin(), special.end(), id) != special.end() ? 2u : 1u};
      });
}

TEST(CanonicalTreeTest, PartsAreOrderedByWhatTheyAreAndUnusedOnesAreLeftOut) {
  const Topology topology = Racks();
  const CanonicalTree tree = TreeOf(topology, {20});
  ASSERT_EQ(tree.host_names.size(), 3u);
  EXPECT_EQ(tree.device_ids.size(), 6u);
  // Another device of the same rack is special: the same tree with others' names.
  for (int64_t device : {21, 0, 1}) {
    const CanonicalTree other = TreeOf(topology, {device});
    EXPECT_EQ(other.topology, tree.topology);
    const auto at = [](const CanonicalTree& t, int64_t id) {
      return std::find(t.device_ids.begin(), t.device_ids.end(), id) - t.device_ids.begin();
    };
    EXPECT_EQ(at(other, device), at(tree, 20));
  }
}

TEST(CanonicalTreeTest, NamesAndOrderOfPartsDoNotCount) {
  const CanonicalTree tree = TreeOf(Racks(), {});
  Topology other = Racks();
  for (Host& host : other.hosts) host.parent = host.parent == "r0" ? "a" : "b";
  other.domains[0].name = "b";
  other.domains[1].name = "a";
  std::swap(other.hosts[0], other.hosts[2]);
  std::swap(other.domains[0], other.domains[1]);
  EXPECT_EQ(TreeOf(other, {}).topology, tree.topology);
  other.domains[0].egress_bytes_per_second = 2e10;
  EXPECT_FALSE(TreeOf(other, {}).topology == tree.topology);
}

}  // namespace
}  // namespace remesh::planner
