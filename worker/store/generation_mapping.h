// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/store/generation.h"
#include "worker/store/lent_shards.h"
#include "worker/store/mapped_shards.h"
#include "worker/store/shard_places.h"

namespace remesh::worker {

// Maps the shards of a generation that is not lent, from its files, its segments, and what it has
// taken over, which this uses up. Errors: as MappedFile::Open().
absl::StatusOr<std::shared_ptr<MappedShards>> MapGeneration(Generation& generation);

// Whether `mapped` is of the files that are in the generation's folder now, and all of them are
// whole.
bool StillMaps(const MappedShards& mapped, const Generation& generation);

// Fills in where in the memory of lent.mapped the shards are. REQUIRES: lent.places are of `places`.
void PlaceLent(const ShardPlaces& places, LentShards& lent);

}  // namespace remesh::worker
