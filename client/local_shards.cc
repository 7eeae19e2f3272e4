// SPDX-License-Identifier: Apache-2.0
#include "client/local_shards.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/files/box_copy.h"

namespace remesh::client {
namespace {

absl::Status BadShard(const v1::Shard& shard, const std::string& why) {
  return MakeError(
      absl::StatusCode::kInternal,
      absl::StrCat("the worker's shard of ", shard.array(), " in ", shard.path(), " ", why),
      {.reason = "BAD_SHARD", .metadata = {{"array", shard.array()}, {"path", shard.path()}}});
}

absl::Status OnDevice(const v1::Shard& shard) {
  const std::string& kind = shard.device_memory().kind();
  return MakeError(
      absl::StatusCode::kUnimplemented,
      absl::StrCat("the worker's shard of ", shard.array(), " is in the memory of a ", kind,
                   " device, and remeshctl reads and writes files alone: use the "
                   "Python client, or set the worker's device_buffers to host"),
      {.reason = "SHARD_ON_DEVICE", .metadata = {{"array", shard.array()}, {"kind", kind}}});
}

absl::StatusOr<planner::Box> BoxWithin(const v1::Shard& shard, const planner::Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  if (shard.box().lo_size() != rank || shard.box().hi_size() != rank) {
    return BadShard(shard, "has a box of another rank");
  }
  planner::Box box;
  for (int d = 0; d < rank; ++d) {
    const planner::Interval interval{shard.box().lo(d), shard.box().hi(d)};
    if (interval.lo < 0 || interval.lo > interval.hi || interval.hi > shape[d]) {
      return BadShard(shard, "has a box outside the array");
    }
    box.dims.push_back(interval);
  }
  return box;
}

absl::StatusOr<LocalShard> ToLocalShard(const v1::Shard& shard, absl::Span<std::byte> file) {
  LocalShard result{.array = shard.array(), .device = shard.device()};
  ASSIGN_OR_RETURN(result.type, planner::ParseElementType(shard.element_type()));
  result.shape.assign(shard.shape().begin(), shard.shape().end());
  RETURN_IF_ERROR(planner::ValidateShape(result.shape, planner::BitWidth(result.type)));
  ASSIGN_OR_RETURN(result.box, BoxWithin(shard, result.shape));
  const size_t bytes = DenseBytes(result.type, result.box.element_count());
  if (shard.bytes() != static_cast<int64_t>(bytes))
    return BadShard(shard, "has a length unlike its box's");
  if (shard.offset() < 0 || static_cast<uint64_t>(shard.offset()) > file.size() ||
      file.size() - shard.offset() < bytes) {
    return BadShard(shard, "does not lie within its file");
  }
  result.bytes = file.subspan(shard.offset(), bytes);
  return result;
}

}  // namespace

absl::StatusOr<LocalShards> LocalShards::Map(const v1::ShardsResponse& response, bool writable) {
  LocalShards result;
  std::map<std::string, absl::Span<std::byte>> mapped;
  for (const v1::Shard& shard : response.shards()) {
    if (shard.has_device_memory()) return OnDevice(shard);
    auto [file, is_new] = mapped.try_emplace(shard.path());
    if (is_new) {
      ASSIGN_OR_RETURN(MappedFile opened, MappedFile::Open(shard.path(), writable));
      file->second = opened.bytes();
      result.files_.push_back(std::move(opened));
    }
    ASSIGN_OR_RETURN(LocalShard local, ToLocalShard(shard, file->second));
    result.shards_.push_back(std::move(local));
  }
  return result;
}

int64_t LocalShards::total_bytes() const {
  int64_t total = 0;
  for (const LocalShard& shard : shards_) total += static_cast<int64_t>(shard.bytes.size());
  return total;
}

}  // namespace remesh::client
