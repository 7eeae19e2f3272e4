// SPDX-License-Identifier: Apache-2.0
// Generations in the memory of devices, over lives of the worker and of the keeper.
#include "worker/store/device_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "worker/device/testing/sim_device.h"
#include "worker/keeper/keeper_table.h"
#include "worker/store/buffer_store.h"

namespace remesh::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kSegmentState[] = "jobs/a/states/b";

// Two shards of an array on two devices, the second of a kind of its own.
v1::Assignment OnTwoDevices(int64_t generation, const std::string& second_kind = "") {
  v1::Assignment assignment;
  assignment.set_state(kSegmentState);
  assignment.set_state_uid("uid");
  assignment.set_generation(generation);
  auto* array = assignment.add_arrays();
  array->set_name("w");
  array->add_shape(100);
  array->set_element_type("u8");
  for (int device = 0; device < 2; ++device) {
    auto* shard = assignment.add_shards();
    shard->set_device(100 + device);
    shard->set_local_device(device);
    shard->mutable_box()->add_lo(50 * device);
    shard->mutable_box()->add_hi(50 * device + 50);
    if (device == 1) shard->set_memory_kind(second_kind);
  }
  return assignment;
}

class DeviceSegmentsTest : public ::testing::Test {
 protected:
  // A life of the worker.
  struct Life {
    std::vector<std::unique_ptr<Device>> devices;
    std::unique_ptr<HandleTable> handles = std::make_unique<HandleTable>();
    std::unique_ptr<DeviceSegments> segments;
    absl::StatusOr<std::unique_ptr<BufferStore>> store = nullptr;

    BufferStore& operator*() { return **store; }
    BufferStore* operator->() { return store->get(); }
  };

  DeviceSegmentsTest() {
    std::string path = ::testing::TempDir() + "/remesh_segments.XXXXXX";
    directory_ = mkdtemp(path.data());
    StartKeeper();
  }
  ~DeviceSegmentsTest() override { fs::remove_all(directory_); }

  void StartKeeper() {
    keeper_ = nullptr;
    table_ = std::make_unique<KeeperTable>(100);
    auto server = PacketServer::Start(KeeperPath(), 0600, "socket-path",
                                      [this](Packet& p) { return table_->Answer(p); });
    EXPECT_TRUE(server.ok()) << server.status();
    keeper_ = *std::move(server);
  }
  std::string KeeperPath() const { return directory_ + ".keeper"; }

  Life Start(const std::string& first_device = "sim:0") {
    Life life;
    for (const std::string& name : {first_device, std::string("sim:1")}) {
      life.devices.push_back(
          std::make_unique<SimDevice>(SimOptions{.device = name, .memory_bytes = 1 << 20}, [] {}));
    }
    life.segments = std::make_unique<DeviceSegments>(
        LocalDevices({life.devices[0].get(), life.devices[1].get()}),
        std::make_unique<KeeperClient>(KeeperPath(), "host"), life.handles.get());
    life.store = BufferStore::Open({.directory = directory_,
                                    .boot_id = "boot",
                                    .devices = 2,
                                    .segments = life.segments.get()});
    return life;
  }

  // What a GPU would do.
  static void Fill(BufferStore& store, int64_t generation, int value) {
    for (const ShardView& shard : (*store.Map(kSegmentState, generation))->shards)
      std::memset(SimMemory::Behind(shard.data), value, 50);
  }
  static std::vector<int> FirstBytes(BufferStore& store, int64_t generation) {
    std::vector<int> bytes;
    for (const ShardView& shard : (*store.Map(kSegmentState, generation))->shards)
      bytes.push_back(std::to_integer<int>(*SimMemory::Behind(shard.data)));
    return bytes;
  }
  // Waits until the keeper has that many segments, because dropped ones go later.
  bool KeeperHas(size_t segments) {
    KeeperClient client(KeeperPath(), "host");
    for (int i = 0; i < 500; ++i) {
      const auto names = client.List();
      if (names.ok() && names->size() == segments) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return false;
  }

  // The paths of all that is in the buffer directory.
  std::vector<std::string> Everything() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(directory_))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  std::string directory_;
  std::unique_ptr<KeeperTable> table_;
  std::unique_ptr<PacketServer> keeper_;
};

TEST_F(DeviceSegmentsTest, AGenerationIsOnItsDevicesAndZero) {
  Life life = Start();
  ASSERT_TRUE(life->Create(OnTwoDevices(1, "pinned_host"), v1::SHARD_PHASE_BUILDING).ok());
  const Generation* held = life->Find(kSegmentState, 1);
  ASSERT_NE(held->SegmentOf(0), nullptr);
  EXPECT_EQ(held->SegmentOf(1), nullptr);
  EXPECT_TRUE(fs::exists(held->PathOf(1)));
  EXPECT_FALSE(fs::exists(held->PathOf(0)));
  EXPECT_THAT(FirstBytes(*life, 1), ElementsAre(0, 0));
  EXPECT_EQ(life->bytes(), 64);  // of files
  EXPECT_EQ(life.segments->bytes(), 64);
  EXPECT_NE(life.handles->Find(held->SegmentOf(0)->token), nullptr);
  EXPECT_EQ(life.handles->Find("0123456789abcdef0123456789abcdef"), nullptr);
}

TEST_F(DeviceSegmentsTest, ALaterLifeFindsTheMemory) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
    Fill(*life, 1, 42);
    ASSERT_TRUE(life->SetSealed(kSegmentState, 1, {0, 1}, true).ok());
  }
  Life life = Start();
  ASSERT_TRUE(life.store.ok()) << life.store.status();
  const Generation* held = life->Find(kSegmentState, 1);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->phase(), v1::SHARD_PHASE_READY);
  EXPECT_THAT(FirstBytes(*life, 1), ElementsAre(42, 42));
}

TEST_F(DeviceSegmentsTest, WhatIsDroppedIsFreeEverywhere) {
  Life life = Start();
  for (int64_t generation = 1; generation <= 2; ++generation)
    ASSERT_TRUE(life->Create(OnTwoDevices(generation), v1::SHARD_PHASE_BUILDING).ok());
  EXPECT_TRUE(KeeperHas(4));
  const std::string token = life->Find(kSegmentState, 1)->SegmentOf(0)->token;
  life->Recycle(kSegmentState, 1);
  EXPECT_TRUE(KeeperHas(2));
  EXPECT_EQ(life.handles->Find(token), nullptr);
  life->Drop(kSegmentState, 2);
  EXPECT_TRUE(KeeperHas(0));
}

TEST_F(DeviceSegmentsTest, WhatDoesNotFitLeavesNothingBehind) {
  Life life = Start();
  v1::Assignment large = OnTwoDevices(1);
  large.mutable_arrays(0)->set_shape(0, 2 << 20);
  large.mutable_shards(1)->mutable_box()->set_hi(0, 2 << 20);
  const absl::Status refused = life->Create(large, v1::SHARD_PHASE_BUILDING);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(GetErrorInfo(refused).reason, "DEVICE_MEMORY_EXHAUSTED");
  EXPECT_TRUE(KeeperHas(0));
  EXPECT_EQ(life->bytes(), 0);
  EXPECT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
}

TEST_F(DeviceSegmentsTest, MemoryOfUnverifiedMovesGoesWithTheWorkersLife) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
    ASSERT_TRUE(life->Create(OnTwoDevices(2), v1::SHARD_PHASE_PREPARED).ok());
  }
  EXPECT_TRUE(KeeperHas(4));
  Life life = Start();
  EXPECT_NE(life->Find(kSegmentState, 1), nullptr);
  EXPECT_EQ(life->Find(kSegmentState, 2), nullptr);
  EXPECT_TRUE(KeeperHas(2));
}

TEST_F(DeviceSegmentsTest, AKeeperThatForgotCostsTheGenerationAndSaysSo) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
  }
  StartKeeper();
  Life life = Start();
  ASSERT_TRUE(life.store.ok());
  EXPECT_EQ(life->Find(kSegmentState, 1), nullptr);
  ASSERT_THAT(life->notes(), SizeIs(1));
  EXPECT_THAT(life->notes()[0], HasSubstr("aside: its device memory d0.device"));
}

TEST_F(DeviceSegmentsTest, AnUnreachableKeeperStopsTheStartAndCostsNothing) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
    Fill(*life, 1, 42);
  }
  // The same keeper, away for a while.
  auto table = std::move(table_);
  keeper_ = nullptr;
  {
    Life life = Start();
    EXPECT_TRUE(absl::IsUnavailable(life.store.status())) << life.store.status();
    EXPECT_THAT(std::string(life.store.status().message()), HasSubstr(KeeperPath()));
  }
  table_ = std::move(table);
  keeper_ = *PacketServer::Start(KeeperPath(), 0600, "socket-path",
                                 [this](Packet& p) { return table_->Answer(p); });
  Life life = Start();
  ASSERT_TRUE(life.store.ok()) << life.store.status();
  EXPECT_THAT(FirstBytes(*life, 1), ElementsAre(42, 42));
}

// Regression: folders that came before the generation that needs the keeper were removed.
TEST_F(DeviceSegmentsTest, NothingIsRemovedBeforeTheKeeperIsReached) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_PREPARED).ok());
    ASSERT_TRUE(life->Create(OnTwoDevices(2), v1::SHARD_PHASE_BUILDING).ok());
    const fs::path state = fs::path(life->Find(kSegmentState, 1)->folder).parent_path();
    fs::create_directories(state / "0");         // not made to its end
    fs::create_directories(state / "1strange");  // to be set aside
    fs::create_directories(directory_ + "/.trash1");
  }
  const std::vector<std::string> before = Everything();
  keeper_ = nullptr;
  EXPECT_TRUE(absl::IsUnavailable(Start().store.status()));
  EXPECT_EQ(Everything(), before);
  StartKeeper();
  EXPECT_TRUE(Start().store.ok());
  EXPECT_NE(Everything(), before);
}

TEST_F(DeviceSegmentsTest, AKeeperThatWasRestartedIsToldAgain) {
  Life life = Start();
  ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
  ASSERT_TRUE(KeeperHas(2));
  StartKeeper();
  EXPECT_TRUE(KeeperHas(2));
  EXPECT_TRUE(life.segments->keeper_status().ok());
  keeper_ = nullptr;
  for (int i = 0; i < 500 && life.segments->keeper_status().ok(); ++i)
    absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsUnavailable(life.segments->keeper_status()));
  const absl::Status refused = life->Create(OnTwoDevices(2), v1::SHARD_PHASE_BUILDING);
  EXPECT_EQ(GetErrorInfo(refused).reason, "KEEPER_UNREACHABLE") << refused;
}

TEST_F(DeviceSegmentsTest, MemoryOfAnotherDeviceIsNotTakenForThisOnes) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
  }
  Life life = Start("sim:7");
  EXPECT_EQ(life->Find(kSegmentState, 1), nullptr);
  ASSERT_THAT(life->notes(), SizeIs(1));
  EXPECT_THAT(life->notes()[0], HasSubstr("is of device sim:0, but local device 0 is sim:7"));
  EXPECT_TRUE(KeeperHas(2));  // an operator may want the generation back that was set aside
}

TEST_F(DeviceSegmentsTest, WhatCannotBeSetAsideKeepsItsMemory) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
  }
  std::ofstream(directory_ + "/.aside") << "in the way";
  Life life = Start("sim:7");
  ASSERT_THAT(life->notes(), SizeIs(1));
  EXPECT_THAT(life->notes()[0], HasSubstr("cannot set"));
  life.segments = nullptr;  // waits until all drops are done
  EXPECT_TRUE(KeeperHas(2));
}

TEST_F(DeviceSegmentsTest, WithAManifestThatCannotBeReadNothingUnknownIsFreed) {
  {
    Life life = Start();
    ASSERT_TRUE(life->Create(OnTwoDevices(1), v1::SHARD_PHASE_BUILDING).ok());
    std::ofstream(life->Find(kSegmentState, 1)->folder + "/manifest") << "garbage";
  }
  Life life = Start();
  EXPECT_EQ(life->Find(kSegmentState, 1), nullptr);
  life.store = nullptr;
  life.segments = nullptr;  // waits until all drops are done
  EXPECT_TRUE(KeeperHas(2));
}

TEST_F(DeviceSegmentsTest, WithoutAKeeperBuffersEndWithTheWorker) {
  SimDevice device(SimOptions{}, [] {});
  HandleTable handles;
  DeviceSegments segments(LocalDevices({&device}), nullptr, &handles);
  ASSERT_TRUE(segments.Make("x", 0, 100).ok());
  const absl::Status gone = segments.Find("x", 0, 100).status();
  EXPECT_TRUE(absl::IsNotFound(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("keeper_socket"));
  EXPECT_TRUE(segments.keeper_status().ok());
}

}  // namespace
}  // namespace remesh::worker
