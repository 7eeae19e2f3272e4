// SPDX-License-Identifier: Apache-2.0
#include "worker/store/generation_mapping.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/files/buffer_file.h"

namespace remesh::worker {

absl::StatusOr<std::shared_ptr<MappedShards>> MapGeneration(Generation& generation) {
  const auto taken_over = std::exchange(generation.taken_over, nullptr);
  auto mapped = std::make_shared<MappedShards>();
  mapped->assignment = generation.manifest.assignment();
  for (const ShardPlaces::File& file : generation.places.files) {
    const int index = static_cast<int>(mapped->files.size());
    if (const auto segment = generation.segments->find(index);
        segment != generation.segments->end()) {
      mapped->files.emplace_back();
      mapped->on_device.push_back(segment->second.memory);
      continue;
    }
    mapped->on_device.push_back(nullptr);
    if (taken_over != nullptr && taken_over->files.contains(index)) {
      mapped->files.push_back(std::move(taken_over->files.at(index)));
      continue;
    }
    ASSIGN_OR_RETURN(MappedFile bytes,
                     MappedFile::Open(absl::StrCat(generation.folder, "/", file.name), file.bytes));
    mapped->files.push_back(std::move(bytes));
  }
  for (const ShardPlaces::Shard& shard : generation.places.shards) {
    std::byte* const segment = mapped->on_device[shard.file].get();
    std::byte* const begin =
        segment != nullptr ? segment : mapped->files[shard.file].bytes().data();
    mapped->shards.push_back({begin + shard.offset, shard.box, shard.bits_per_element});
    mapped->file_of.push_back(shard.file);
  }
  return mapped;
}

bool StillMaps(const MappedShards& mapped, const Generation& generation) {
  // A trainer that truncated a file may have mended the file since, but never the mapping.
  const auto same = [&](size_t i) {
    return mapped.on_device[i] != nullptr ||
           mapped.files[i].IsAt(
               absl::StrCat(generation.folder, "/", generation.places.files[i].name));
  };
  bool whole = mapped.CheckWhole().ok();
  for (size_t i = 0; whole && i < mapped.files.size(); ++i) whole = same(i);
  return whole;
}

void PlaceLent(const ShardPlaces& places, LentShards& lent) {
  MappedShards& mapped = *lent.mapped;
  for (size_t i = 0; i < lent.places.size(); ++i) {
    const LentShards::Place& place = lent.places[i];
    std::byte* const device = mapped.on_device[place.memory].get();
    std::byte* const begin = device != nullptr ? device : mapped.files[place.memory].bytes().data();
    const ShardPlaces::Shard& shard = places.shards[i];
    mapped.shards.push_back({begin + place.offset, shard.box, shard.bits_per_element});
    mapped.file_of.push_back(place.memory);
  }
}

}  // namespace remesh::worker
