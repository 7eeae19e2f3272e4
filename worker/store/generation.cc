// SPDX-License-Identifier: Apache-2.0
#include "worker/store/generation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace remesh::worker {

bool Generation::pending() const {
  return phase() == v1::SHARD_PHASE_PREPARED || phase() == v1::SHARD_PHASE_VERIFIED;
}

int64_t Generation::sealed_shards() const {
  return std::count(manifest.sealed().begin(), manifest.sealed().end(), true);
}

const DeviceSegment* Generation::SegmentOf(int shard) const {
  const auto it = segments->find(places.shards[shard].file);
  return it == segments->end() ? nullptr : &it->second;
}

int64_t Generation::host_bytes() const {
  if (lent) return 0;
  int64_t bytes = places.file_bytes;
  for (const worker::SegmentRecord& record : manifest.segments()) bytes -= record.bytes();
  return bytes;
}

std::string Generation::PathOf(int shard) const {
  return absl::StrCat(folder, "/", places.files[places.shards[shard].file].name);
}

v1::StateManifest Generation::Summary() const {
  v1::StateManifest summary;
  summary.set_state(state());
  summary.set_state_uid(state_uid());
  summary.set_generation(number());
  summary.set_phase(phase());
  summary.set_execution(manifest.attempt().execution());
  summary.set_cluster_uid(manifest.cluster_uid());
  summary.set_sealed_shards(sealed_shards());
  summary.set_total_shards(manifest.sealed_size());
  summary.set_bytes(places.shard_bytes);
  summary.set_write(write());
  const v1::Assignment& assignment = manifest.assignment();
  summary.set_write_committed(assignment.write_once() && assignment.committed() && number() == 1 &&
                              all_sealed());
  return summary;
}

}  // namespace remesh::worker
