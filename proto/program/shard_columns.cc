// SPDX-License-Identifier: Apache-2.0
#include "proto/program/shard_columns.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::proto {
namespace {

bool FitColumns(const v1::Assignment& assignment) {
  if (assignment.shards_size() > kColumnShardsMax) return false;
  return std::all_of(assignment.shards().begin(), assignment.shards().end(),
                     [&](const v1::ShardSpec& shard) {
                       if (shard.array() < 0 || shard.array() >= assignment.arrays_size()) {
                         return false;
                       }
                       const int rank = assignment.arrays(shard.array()).shape_size();
                       return shard.box().lo_size() == rank && shard.box().hi_size() == rank;
                     });
}

absl::Status CheckLength(const char* column, int length, int expected) {
  if (length == expected) return absl::OkStatus();
  return InvalidField(absl::StrCat("columns.", column), absl::StrCat(length, " entries"),
                      absl::StrCat("must be ", expected));
}

absl::Status CheckIndex(const char* column, int shard, int64_t index, int64_t count) {
  if (index >= 0 && index < count) return absl::OkStatus();
  return InvalidField(absl::StrCat("columns.", column, "[", shard, "]"), absl::StrCat(index),
                      absl::StrCat("must be in [0, ", count, ")"));
}

// Longer than the name of any memory kind.
constexpr size_t kMemoryKindBytesMax = 32;

// Checks everything but the boxes.
absl::Status CheckColumns(const v1::Assignment& assignment) {
  const v1::ShardColumns& columns = assignment.columns();
  if (assignment.shards_size() > 0) {
    return InvalidField("shards", absl::StrCat(assignment.shards_size(), " entries"),
                        "must be empty beside columns");
  }
  const int count = columns.devices_size();
  if (count > kColumnShardsMax) {
    return InvalidField("columns.devices", absl::StrCat(count, " entries"),
                        absl::StrCat("must be at most ", kColumnShardsMax));
  }
  // Each is copied into many shards.
  for (const std::string& name : columns.memory_kind_names()) {
    if (name.size() <= kMemoryKindBytesMax) continue;
    return InvalidField("columns.memory_kind_names", absl::StrCat(name.size(), " bytes"),
                        absl::StrCat("must be at most ", kMemoryKindBytesMax, " bytes each"));
  }
  RETURN_IF_ERROR(CheckLength("arrays", columns.arrays_size(), count));
  RETURN_IF_ERROR(CheckLength("local_devices", columns.local_devices_size(), count));
  const bool has_kinds = columns.memory_kinds_size() > 0;
  if (has_kinds) {
    RETURN_IF_ERROR(CheckLength("memory_kinds", columns.memory_kinds_size(), count));
  }
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(CheckIndex("arrays", i, columns.arrays(i), assignment.arrays_size()));
    if (!has_kinds) continue;
    RETURN_IF_ERROR(
        CheckIndex("memory_kinds", i, columns.memory_kinds(i), columns.memory_kind_names_size()));
  }
  return CheckLength("extents", columns.extents_size(), columns.lo_size());
}

absl::Status CheckRange(const v1::ShardColumns& columns, int entry) {
  const int64_t lo = columns.lo(entry);
  const int64_t extent = columns.extents(entry);
  if (lo >= 0 && extent > 0 && extent <= std::numeric_limits<int64_t>::max() - lo) {
    return absl::OkStatus();
  }
  return InvalidField(absl::StrCat("columns.extents[", entry, "]"), absl::StrCat(extent),
                      absl::StrCat("must be > 0 and fit the lower end ", lo, ", which is >= 0"));
}

}  // namespace

void ColumnsWriter::Reserve(int shards) {
  columns_.mutable_arrays()->Reserve(shards);
  columns_.mutable_devices()->Reserve(shards);
  columns_.mutable_local_devices()->Reserve(shards);
  columns_.mutable_memory_kinds()->Reserve(shards);
  columns_.mutable_lo()->Reserve(shards);  // boxes of one dimension, at least
  columns_.mutable_extents()->Reserve(shards);
}

void ColumnsWriter::Add(int32_t array, int64_t device, int32_t local_device,
                        std::string_view memory_kind) {
  columns_.add_arrays(array);
  columns_.add_devices(device);
  columns_.add_local_devices(local_device);
  columns_.add_memory_kinds(KindOf(memory_kind));
}

// There are but a few.
int32_t ColumnsWriter::KindOf(std::string_view name) {
  const int known = columns_.memory_kind_names_size();
  for (int i = 0; i < known; ++i) {
    if (columns_.memory_kind_names(i) == name) return i;
  }
  columns_.add_memory_kind_names(std::string(name));
  return known;
}

void ColumnsWriter::AddRange(int64_t lo, int64_t hi) {
  columns_.add_lo(lo);
  columns_.add_extents(hi - lo);
}

void ColumnsWriter::Finish() {
  const bool all_empty =
      columns_.memory_kind_names_size() == 1 && columns_.memory_kind_names(0).empty();
  if (!all_empty) return;
  columns_.clear_memory_kind_names();
  columns_.clear_memory_kinds();
}

void ShardsToColumns(v1::Assignment& assignment) {
  if (assignment.shards().empty() || !FitColumns(assignment)) return;
  ColumnsWriter columns(*assignment.mutable_columns());
  columns.Reserve(assignment.shards_size());
  for (const v1::ShardSpec& shard : assignment.shards()) {
    columns.Add(shard.array(), shard.device(), shard.local_device(), shard.memory_kind());
    for (int d = 0; d < shard.box().lo_size(); ++d) {
      columns.AddRange(shard.box().lo(d), shard.box().hi(d));
    }
  }
  columns.Finish();
  assignment.clear_shards();
}

absl::Status ColumnsToShards(v1::Assignment& assignment) {
  if (!assignment.has_columns()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckColumns(assignment));
  const v1::ShardColumns& columns = assignment.columns();
  int64_t next = 0;
  google::protobuf::RepeatedPtrField<v1::ShardSpec> shards;
  for (int i = 0; i < columns.devices_size(); ++i) {
    const int rank = assignment.arrays(columns.arrays(i)).shape_size();
    if (next + rank > columns.lo_size()) return CheckLength("lo", columns.lo_size(), next + rank);
    v1::ShardSpec& shard = *shards.Add();
    shard.set_array(columns.arrays(i));
    shard.set_device(columns.devices(i));
    shard.set_local_device(columns.local_devices(i));
    if (columns.memory_kinds_size() > 0) {
      shard.set_memory_kind(columns.memory_kind_names(columns.memory_kinds(i)));
    }
    v1::Box& box = *shard.mutable_box();  // of an array without dimensions, too
    for (int d = 0; d < rank; ++d, ++next) {
      const int entry = static_cast<int>(next);
      RETURN_IF_ERROR(CheckRange(columns, entry));
      box.add_lo(columns.lo(entry));
      box.add_hi(columns.lo(entry) + columns.extents(entry));
    }
  }
  RETURN_IF_ERROR(CheckLength("lo", columns.lo_size(), static_cast<int>(next)));
  assignment.mutable_shards()->Swap(&shards);
  assignment.clear_columns();
  return absl::OkStatus();
}

}  // namespace remesh::proto
