// SPDX-License-Identifier: Apache-2.0
#include "server/questions/new_workers.h"

#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/convert/plan_proto.h"

namespace remesh::server {
namespace {

// Hosts of two devices, each in a rack of its own.
planner::Topology Workers(int64_t hosts) {
  planner::Topology workers;
  for (int64_t h = 0; h < hosts; ++h) {
    workers.hosts.push_back({.name = absl::StrCat("host-", h),
                             .device_ids = {2 * h, 2 * h + 1},
                             .nic_bytes_per_second = 1e9,
                             .nics = 1,
                             .fabric_bytes_per_second = 1e9,
                             .parent = absl::StrCat("rack-", h)});
    workers.domains.push_back({absl::StrCat("rack-", h), "hall", 1e9, 1e9});
  }
  workers.domains.push_back({"hall", "", 1e9, 1e9});
  absl::c_sort(workers.hosts, [](const auto& a, const auto& b) { return a.name < b.name; });
  return workers;
}

class NewWorkersTest : public testing::Test {
 protected:
  NewWorkersTest() {
    const planner::Topology two = Workers(2);
    *spec_.mutable_topology() = proto::ToProto(two);
    spec_.mutable_topology()->set_from_workers(true);
    v1::DeviceList::Range& all = *(*spec_.mutable_device_lists())["all"].mutable_range();
    all.set_start(0);
    all.set_count(4);
    for (const char* list : {"all", "more", "also"}) {  // if there is such a list
      spec_.add_arrays()->mutable_sharding()->mutable_devices()->set_ref(list);
    }
    source_ = spec_;
  }

  // Moves the source to the devices of host-1.
  void HoldOnHostOne() {
    v1::DeviceList::Range& all = *(*source_.mutable_device_lists())["all"].mutable_range();
    all.set_start(2);
    all.set_count(2);
  }
  void SetIds(int host, std::vector<int64_t> ids) {
    *spec_.mutable_topology()->mutable_hosts(host)->mutable_device_ids() = {ids.begin(), ids.end()};
  }

  using Names = std::vector<std::string>;
  // Adds a host that no worker is now; host-21 has its device id.
  void AddGone() {
    v1::Host& gone = *spec_.mutable_topology()->add_hosts();
    gone.set_name("gone");
    gone.add_device_ids(42);
    gone.set_parent("rack-gone");
    v1::Domain& rack = *spec_.mutable_topology()->add_domains();
    rack.set_name("rack-gone");
    rack.set_parent("hall");
    *source_.mutable_topology() = spec_.topology();
  }

  // The names of the hosts that are added.
  std::vector<std::string> Added() {
    v1::StateSpec spec = spec_;
    AddNamedWorkers(spec, source_, lost_, &workers_);
    domains_ = spec.topology().domains_size() - spec_.topology().domains_size();
    const Names before = HostsOf(spec_);
    const Names after = HostsOf(spec);
    Names added;
    absl::c_set_difference(after, before, std::back_inserter(added));
    removed_.clear();
    absl::c_set_difference(before, after, std::back_inserter(removed_));
    return added;
  }
  // In order of their names.
  static Names HostsOf(const v1::StateSpec& spec) {
    Names names;
    for (const v1::Host& host : spec.topology().hosts()) names.push_back(host.name());
    absl::c_sort(names);
    return names;
  }

  planner::Topology workers_ = Workers(100);
  v1::StateSpec spec_;    // the target
  v1::StateSpec source_;  // names the devices 0 to 3
  std::set<int64_t> lost_;
  int domains_ = 0;  // that were added
  Names removed_;    // hosts
};

TEST_F(NewWorkersTest, AMoveAmongKnownHostsAddsNone) { EXPECT_EQ(Added(), Names()); }

TEST_F(NewWorkersTest, OnlyHostsWithNamedDevicesAreAddedWithTheirRacks) {
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  (*spec_.mutable_device_lists())["more"].add_ids(3);
  EXPECT_EQ(Added(), Names({"host-20"}));
  EXPECT_EQ(domains_, 1);
}

TEST_F(NewWorkersTest, EveryFormOfNamingDevicesCounts) {
  v1::DeviceList::Range& range =
      *(*spec_.mutable_shardings())["rows"].mutable_devices()->mutable_range();
  range.set_start(2);
  range.set_count(4);
  spec_.add_arrays()->mutable_sharding()->set_ref("rows");
  spec_.add_arrays()->mutable_sharding()->mutable_boxes()->add_devices()->set_device(10);
  spec_.add_arrays()->mutable_sharding()->mutable_devices()->add_ids(13);
  EXPECT_EQ(Added(), Names({"host-2", "host-5", "host-6"}));
}

TEST_F(NewWorkersTest, RangesThatNoIdFitsAddNone) {
  v1::DeviceList::Range& range = *(*spec_.mutable_device_lists())["all"].mutable_range();
  range.set_start(std::numeric_limits<int64_t>::max());
  range.set_count(2);
  EXPECT_EQ(Added(), Names());
  range.set_start(0);
  range.set_count(-1);
  EXPECT_EQ(Added(), Names());
}

TEST_F(NewWorkersTest, NoneAreAddedToATopologyThatNumbersDevicesItsOwnWay) {
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  spec_.mutable_topology()->mutable_hosts(0)->set_device_ids(0, 1);
  spec_.mutable_topology()->mutable_hosts(0)->set_device_ids(1, 0);
  EXPECT_EQ(Added(), Names());
}

TEST_F(NewWorkersTest, NoneAreAddedIfAWorkerLacksADeviceThatHolds) {
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  SetIds(0, {0, 1000});
  *source_.mutable_topology() = spec_.topology();
  (*source_.mutable_device_lists())["also"].add_ids(1000);
  EXPECT_EQ(Added(), Names());
  lost_ = {1000};
  EXPECT_EQ(Added(), Names({"host-20"}));
}

// It left, was forgotten, and is registered again with the ids that were free.
TEST_F(NewWorkersTest, AHostThatHoldsNothingAndCameBackWithOtherDevicesDoesNotPreventIt) {
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  SetIds(0, {1000, 1001});
  HoldOnHostOne();
  EXPECT_EQ(Added(), Names({"host-20"}));
}

TEST_F(NewWorkersTest, AHostWithABrokenOrANewDeviceDoesNotPreventIt) {
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  HoldOnHostOne();
  SetIds(0, {0, 1, 1000});  // 1000 has broken
  EXPECT_EQ(Added(), Names({"host-20"}));
  SetIds(0, {1});  // 0 is new
  EXPECT_EQ(Added(), Names({"host-20"}));
}

TEST_F(NewWorkersTest, AHostThatHasGoneLeavesWithItsRacks) {
  AddGone();
  EXPECT_EQ(Added(), Names());  // nothing is named that is not there
  EXPECT_EQ(removed_, Names());
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  (*spec_.mutable_device_lists())["more"].add_ids(43);
  EXPECT_EQ(Added(), Names({"host-20", "host-21"}));
  EXPECT_EQ(removed_, Names({"gone"}));
  EXPECT_EQ(domains_, 1);  // two racks more, one less
  AddAllWorkers(spec_, &workers_);
  EXPECT_EQ(HostsOf(spec_).size(), 100u);
}

TEST_F(NewWorkersTest, AHostThatHasGoneStaysWhileTheStateIsOnIt) {
  AddGone();
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  (*spec_.mutable_device_lists())["more"].add_ids(43);
  (*source_.mutable_device_lists())["also"].add_ids(42);
  EXPECT_EQ(Added(), Names({"host-20"}));  // host-21 has the device id, too
  EXPECT_EQ(removed_, Names());
  lost_ = {42};
  EXPECT_EQ(Added(), Names({"host-20"}));
  EXPECT_EQ(removed_, Names());
}

TEST_F(NewWorkersTest, AHostThatCameBackWithOtherDevicesCanBeATarget) {
  SetIds(0, {1000, 1001});
  HoldOnHostOne();
  v1::DeviceList::Range& all = *(*spec_.mutable_device_lists())["all"].mutable_range();
  all.set_count(2);
  AddNamedWorkers(spec_, source_, lost_, &workers_);
  EXPECT_EQ(HostsOf(spec_), Names({"host-0", "host-1"}));
  EXPECT_EQ(spec_.topology().hosts(0).name(), "host-1");
  EXPECT_EQ(spec_.topology().hosts(1).device_ids(0), 0);
}

// "gone" has left, and host-21 was given its device ids.
TEST_F(NewWorkersTest, ADeviceIdBelongsToTheWorkerThatHasItNow) {
  AddGone();
  (*spec_.mutable_device_lists())["more"].add_ids(42);
  EXPECT_EQ(Added(), Names({"host-21"}));
  EXPECT_EQ(removed_, Names({"gone"}));
  workers_.hosts.erase(absl::c_find_if(
      workers_.hosts, [](const planner::Host& worker) { return worker.name == "host-21"; }));
  EXPECT_EQ(Added(), Names());
  EXPECT_EQ(removed_, Names());
}

TEST_F(NewWorkersTest, ListsThatNoArrayUsesSayNothing) {
  AddGone();
  (*source_.mutable_device_lists())["of another state"].add_ids(42);
  (*spec_.mutable_device_lists())["of another state"].add_ids(44);
  EXPECT_EQ(Added(), Names());
  (*spec_.mutable_device_lists())["more"].add_ids(42);
  EXPECT_EQ(Added(), Names({"host-21"}));
  EXPECT_EQ(removed_, Names({"gone"}));
}

TEST_F(NewWorkersTest, AHostThatTheStateHasLeftDoesNotPreventIt) {
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  HoldOnHostOne();
  SetIds(0, {1, 0});  // it came back with its devices in another order
  v1::DeviceList::Range& all = *(*spec_.mutable_device_lists())["all"].mutable_range();
  all.set_start(2);
  all.set_count(2);
  EXPECT_EQ(Added(), Names({"host-20"}));
  EXPECT_EQ(removed_, Names({"host-0"}));
}

TEST_F(NewWorkersTest, ATopologyIsTheWorkersIfEachOfItsHostsIs) {
  AddGone();
  v1::Topology topology = spec_.topology();
  EXPECT_TRUE(IsFromWorkers(topology, spec_.topology(), &workers_));
  EXPECT_TRUE(IsFromWorkers(topology, spec_.topology(), nullptr));
  v1::Host& other = *topology.add_hosts();
  other.set_name("host-5");
  other.add_device_ids(10);
  EXPECT_FALSE(IsFromWorkers(topology, spec_.topology(), &workers_));
  other.add_device_ids(11);
  EXPECT_TRUE(IsFromWorkers(topology, spec_.topology(), &workers_));
  EXPECT_FALSE(IsFromWorkers(topology, spec_.topology(), nullptr));
  spec_.mutable_topology()->set_from_workers(false);
  EXPECT_FALSE(IsFromWorkers(topology, spec_.topology(), &workers_));
}

// A host with no worker yet, and one whose number is another worker's: the topology says what they
// are, even where all that holds agrees.
TEST_F(NewWorkersTest, ATopologyThatTheCallerMadeKeepsItsHosts) {
  AddGone();
  spec_.mutable_topology()->set_from_workers(false);
  spec_.mutable_topology()->add_domains()->set_name("above no host yet");
  (*spec_.mutable_device_lists())["more"].add_ids(42);
  EXPECT_EQ(Added(), Names());
  EXPECT_EQ(removed_, Names());
  (*spec_.mutable_device_lists())["more"].add_ids(41);
  EXPECT_EQ(Added(), Names({"host-20"}));
  EXPECT_EQ(removed_, Names());
  EXPECT_EQ(domains_, 1);
}

TEST_F(NewWorkersTest, AStateThatMovesOnKeepsNoHostItHasLeft) {
  for (int64_t host = 2; host < 50; ++host) {
    planner::Topology present = Workers(host + 1);
    std::erase_if(present.hosts, [host](const auto& worker) {  // all but the two newest
      return worker.device_ids[0] < 2 * host - 2;
    });
    spec_.clear_device_lists();
    (*spec_.mutable_device_lists())["all"].add_ids(2 * host);
    AddNamedWorkers(spec_, source_, lost_, &present);
    source_ = spec_;
    EXPECT_LE(spec_.topology().hosts_size(), 4);
    EXPECT_LE(spec_.topology().domains_size(), 5);
  }
}

TEST_F(NewWorkersTest, AllCanBeAdded) {
  AddAllWorkers(spec_, &workers_);
  EXPECT_EQ(spec_.topology().hosts_size(), 100);
  EXPECT_EQ(spec_.topology().domains_size(), 101);
}

}  // namespace
}  // namespace remesh::server
