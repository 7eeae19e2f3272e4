// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "remesh/v1/worker.pb.h"
#include "worker/files/buffer_file.h"
#include "worker/manifest.pb.h"
#include "worker/store/buffer_pool.h"
#include "worker/store/device_segments.h"
#include "worker/store/lease_table.h"
#include "worker/store/shard_places.h"

namespace remesh::worker {

// Memory that a generation takes over from an earlier one while it is made.
struct TakenOver {
  std::unique_ptr<KeptFiles> from;
  std::map<int, MappedFile> files;  // by index into ShardPlaces::files
};

// What this host holds of one generation of a state.
struct Generation {
  worker::GenerationManifest manifest;
  ShardPlaces places;
  std::string folder;
  std::shared_ptr<TakenOver> taken_over = nullptr;  // until it is mapped; or null
  // The segments in the memory of devices, by index into places.files. Fill() makes them.
  std::shared_ptr<std::map<int, DeviceSegment>> segments =
      std::make_shared<std::map<int, DeviceSegment>>();

  bool lent = false;  // in memory of a trainer: nothing of it is on file
  // Of lent memory: bytes whose pages did not exist yet when it was lent.
  int64_t missing_bytes = 0;
  std::shared_ptr<const Lease> lease = nullptr;  // see LentShards

  // Whether the lender is gone, so that nothing of the generation can be read any more.
  bool lost() const { return lease != nullptr && lease->ended(); }

  const std::string& state() const { return manifest.assignment().state(); }
  const std::string& state_uid() const { return manifest.assignment().state_uid(); }
  int64_t number() const { return manifest.assignment().generation(); }
  v1::ShardPhase phase() const { return manifest.phase(); }
  const std::string& write() const { return manifest.write(); }
  bool modified() const { return manifest.modified(); }
  // Whether it is of an execution that has not committed, so not the trainers' yet.
  bool pending() const;
  int64_t sealed_shards() const;
  bool all_sealed() const { return sealed_shards() == manifest.sealed_size(); }
  // The segment that stands for the shard's file; null if the shard is in a file.
  const DeviceSegment* SegmentOf(int shard) const;
  std::string PathOf(int shard) const;
  int64_t host_bytes() const;  // of the files
  v1::StateManifest Summary() const;
};

}  // namespace remesh::worker
