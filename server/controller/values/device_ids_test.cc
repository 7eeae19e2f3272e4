// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/device_ids.h"

#include <gtest/gtest.h>

namespace remesh::server {
namespace {

using Ids = std::vector<int64_t>;

bool Free(int64_t) { return false; }
bool Unknown(const std::string&) { return false; }
bool Known(const std::string&) { return true; }

TEST(DeviceIdsTest, WhatIsWrittenIsReadBack) {
  DeviceIds ids;
  std::vector<Record> records;
  EXPECT_EQ(ids.Assign("a", 2, Free, Known, records), (Ids{0, 1}));
  EXPECT_EQ(ids.Assign("b", 1, Free, Known, records), (Ids{2}));
  std::map<std::string, std::string> disk;
  for (const Record& record : records) disk[record.key] = *record.bytes;
  const auto restored = ReadRecords(disk, nullptr);
  ASSERT_TRUE(restored.ok()) << restored.status();
  DeviceIds next;
  next.Restore(*restored);
  records.clear();
  EXPECT_EQ(next.Assign("a", 2, Free, Known, records), (Ids{0, 1}));
  EXPECT_TRUE(records.empty());
  EXPECT_EQ(next.Assign("c", 1, Free, Known, records), (Ids{3}));
  EXPECT_EQ(*next.OwnerOf(2), "b");
}

TEST(DeviceIdsTest, WhatAStateNamesIsAssignedToNoHost) {
  auto placed = std::make_shared<PlacedState>();
  placed->hosts["own"].devices.device_ids = {0, 2};
  Restored restored;
  restored.states["jobs/j/states/s"].placed = placed;
  DeviceIds ids;
  ids.Restore(restored);
  std::vector<Record> records;
  EXPECT_EQ(ids.Assign("a", 2, Free, Known, records), (Ids{1, 3}));
}

TEST(DeviceIdsTest, UnknownHostsMakeRoomAndTheirIdsStayUnused) {
  DeviceIds ids(/*kept_max=*/10);
  std::vector<Record> records;
  for (int i = 0; i < 100; ++i) {
    ids.Assign("host-" + std::to_string(i), 2, Free, Unknown, records);
    EXPECT_LE(ids.size(), 10u);
  }
  EXPECT_EQ(ids.Assign("last", 1, Free, Unknown, records), (Ids{200}));
}

TEST(DeviceIdsTest, ARecordThatIsNoListOfIdsIsNotRead) {
  for (const char* bytes : {"", "1,,2", "-1", "x"}) {
    EXPECT_FALSE(ReadRecords({{"device_ids/a", bytes}}, nullptr).ok()) << bytes;
  }
  EXPECT_FALSE(ReadRecords({{"next_device_id", "-1"}}, nullptr).ok());
}

}  // namespace
}  // namespace remesh::server
