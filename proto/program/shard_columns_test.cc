// SPDX-License-Identifier: Apache-2.0
#include "proto/program/shard_columns.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::proto {
namespace {

// Arrays of one, two and no dimensions, with shards of all on two devices.
v1::Assignment Whole() {
  v1::Assignment assignment;
  assignment.set_state("jobs/j/states/s");
  for (const int rank : {1, 2, 0}) {
    v1::AssignedArray& array = *assignment.add_arrays();
    array.set_name(absl::StrCat("a", rank));
    for (int d = 0; d < rank; ++d) array.add_shape(1 << 26);
    for (const int local : {0, 1}) {
      v1::ShardSpec& shard = *assignment.add_shards();
      shard.set_array(assignment.arrays_size() - 1);
      shard.set_device(131070 + local);
      shard.set_local_device(local);
      v1::Box& box = *shard.mutable_box();
      for (int d = 0; d < rank; ++d) {
        box.add_lo(100 * local + d);
        box.add_hi(100 * local + 100);
      }
    }
  }
  return assignment;
}

v1::Assignment InColumns() {
  v1::Assignment assignment = Whole();
  ShardsToColumns(assignment);
  EXPECT_EQ(assignment.shards_size(), 0);
  EXPECT_EQ(assignment.columns().devices_size(), 6);
  return assignment;
}

std::string BadField(v1::Assignment assignment) {
  const absl::Status status = ColumnsToShards(assignment);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return GetErrorInfo(status).metadata["field"];
}

void ExpectSame(v1::Assignment assignment, const v1::Assignment& before) {
  const absl::Status status = ColumnsToShards(assignment);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(assignment.DebugString(), before.DebugString());
}

TEST(ShardColumnsTest, ComeBackAsTheSameShards) {
  ExpectSame(InColumns(), Whole());
  ExpectSame(Whole(), Whole());
}

TEST(ShardColumnsTest, MemoryKindsComeBack) {
  v1::Assignment kinds = Whole();
  kinds.mutable_shards(1)->set_memory_kind("pinned_host");
  kinds.mutable_shards(4)->set_memory_kind("pinned_host");
  kinds.mutable_shards(5)->set_memory_kind("device");
  v1::Assignment packed = kinds;
  ShardsToColumns(packed);
  EXPECT_EQ(packed.columns().memory_kind_names_size(), 3);
  ExpectSame(packed, kinds);
}

TEST(ShardColumnsTest, TakeHalfTheBytes) {
  v1::Assignment flat;
  flat.add_arrays()->add_shape(1 << 26);
  for (int i = 0; i < 160; ++i) {
    v1::ShardSpec& shard = *flat.add_shards();
    shard.set_device(131000 + i % 8);
    shard.set_local_device(i % 8);
    shard.mutable_box()->add_lo((1 << 25) + 512 * i);
    shard.mutable_box()->add_hi((1 << 25) + 512 * i + 512);
  }
  const size_t before = flat.ByteSizeLong();
  ShardsToColumns(flat);
  EXPECT_LE(2 * flat.ByteSizeLong(), before + 100);
}

// The server may know better why; the worker must be told what it says.
TEST(ShardColumnsTest, ShardsThatColumnsCannotSayStayAsTheyAre) {
  v1::Assignment assignment = Whole();
  assignment.mutable_shards(0)->set_array(3);
  ShardsToColumns(assignment);
  EXPECT_FALSE(assignment.has_columns());
  assignment = Whole();
  assignment.mutable_shards(0)->mutable_box()->add_lo(1);
  ShardsToColumns(assignment);
  EXPECT_FALSE(assignment.has_columns());
  EXPECT_EQ(assignment.shards_size(), 6);
}

TEST(ShardColumnsTest, ColumnsThatDoNotFitAreRefused) {
  const auto with = [](auto change) {
    v1::Assignment assignment = InColumns();
    change(*assignment.mutable_columns());
    return BadField(assignment);
  };
  EXPECT_EQ(with([](auto& c) { c.add_arrays(0); }), "columns.arrays");
  EXPECT_EQ(with([](auto& c) { c.mutable_local_devices()->RemoveLast(); }),
            "columns.local_devices");
  EXPECT_EQ(with([](auto& c) { c.add_memory_kinds(0); }), "columns.memory_kinds");
  EXPECT_EQ(with([](auto& c) { c.set_arrays(2, 3); }), "columns.arrays[2]");
  EXPECT_EQ(with([](auto& c) { c.set_arrays(2, -1); }), "columns.arrays[2]");
  EXPECT_EQ(with([](auto& c) { c.add_memory_kind_names(std::string(33, 'k')); }),
            "columns.memory_kind_names");
  EXPECT_EQ(with([](auto& c) { c.add_lo(0); }), "columns.extents");
  EXPECT_EQ(with([](auto& c) {
              c.add_lo(0);
              c.add_extents(1);
            }),
            "columns.lo");
  EXPECT_EQ(with([](auto& c) {
              c.mutable_lo()->RemoveLast();
              c.mutable_extents()->RemoveLast();
            }),
            "columns.lo");
  EXPECT_EQ(with([](auto& c) { c.set_extents(1, 0); }), "columns.extents[1]");
  EXPECT_EQ(with([](auto& c) { c.set_lo(1, -1); }), "columns.extents[1]");
  EXPECT_EQ(with([](auto& c) { c.set_extents(1, std::numeric_limits<int64_t>::max()); }),
            "columns.extents[1]");
  for (const int kind : {1, -1}) {
    EXPECT_EQ(with([&](auto& c) {
                c.add_memory_kind_names("device");
                for (int i = 0; i < 6; ++i) c.add_memory_kinds(kind);
              }),
              "columns.memory_kinds[0]");
  }
}

TEST(ShardColumnsTest, ShardsBesideColumnsAreRefused) {
  v1::Assignment assignment = InColumns();
  assignment.add_shards();
  EXPECT_EQ(BadField(assignment), "shards");
}

}  // namespace
}  // namespace remesh::proto
