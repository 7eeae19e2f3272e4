// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/store/device_segments.h"
#include "worker/store/generation.h"
#include "worker/store/trash.h"

namespace remesh::worker {

// What this life of the worker may take over.
struct AdoptFrom {
  std::string directory;  // of the buffers
  std::string boot_id;
  int devices = 1;
  DeviceSegments* segments = nullptr;  // null: there are none
};

struct Adopted {
  std::vector<Generation> generations;
  // What was removed, set aside or left out, one line each.
  std::vector<std::string> notes;
};

// Takes over the READY, BUILDING and VERIFIED generations of this boot that an earlier life left in
// the directory. Removes PREPARED generations and those of another boot. Moves what it cannot
// understand to the folder ".aside". Frees the keeper's segments of no generation. UNAVAILABLE
// (KEEPER_UNREACHABLE) leaves all as it was.
absl::StatusOr<Adopted> AdoptGenerations(const AdoptFrom& from, Trash& trash);

}  // namespace remesh::worker
