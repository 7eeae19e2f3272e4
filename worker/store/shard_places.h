// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/values/box.h"
#include "planner/values/packing.h"
#include "remesh/v1/worker.pb.h"

namespace remesh::worker {

// Buffers start on multiples of this many bytes.
using planner::kShardAlignment;

// The places of one generation's shards in its files: one file per local device and memory kind,
// with shards packed in the order of the assignment. The places depend on the assignment alone, so
// a later life of the worker finds the shards again.
struct ShardPlaces {
  struct File {
    std::string name;   // "d0.device"
    int64_t bytes = 0;  // >= 1: an empty file cannot be mapped
    int local_device = 0;
    bool of_device = true;  // memory kind "device"; else of the host
  };
  struct Shard {
    int file = 0;
    int64_t offset = 0;
    int64_t bytes = 0;
    int bits_per_element = 8;
    planner::Box box;
  };

  std::vector<File> files;
  std::vector<Shard> shards;  // as Assignment.shards
  int64_t file_bytes = 0;     // of all files
  int64_t shard_bytes = 0;    // of all shards, without gaps
};

// INVALID_ARGUMENT naming the field ("shards[3].box.hi[0]") for an invalid state name, array, type
// or box, a local device outside [0, devices), or shards that add up to 2^62 bytes.
absl::StatusOr<ShardPlaces> PlaceShards(const v1::Assignment& assignment, int devices);

}  // namespace remesh::worker
