// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/store/generation.h"

namespace remesh::worker {

// How generations lie in the folder of the buffers: DIRECTORY/STATE/NUMBER with their files and this
// manifest, which is written last.
inline constexpr char kManifest[] = "/manifest";
std::string GenerationFolder(const std::string& directory, const std::string& state,
                             int64_t generation);
// Where what cannot be understood goes.
std::string AsideFolder(const std::string& directory);

// The folders in a folder, sorted; none where it is absent. INTERNAL (IO_ERROR) when it cannot be
// listed whole.
absl::StatusOr<std::vector<std::string>> FoldersIn(const std::string& folder);

// Files whose bytes are in the memory of devices instead.
std::set<std::string> FilesElsewhere(const worker::GenerationManifest& manifest);

// Reads what an earlier life left in `folder`, but for the memory of devices. NOT_FOUND: it has no
// manifest, so was not made to its end; DATA_LOSS or INVALID_ARGUMENT: why it is of no use.
absl::Status ReadGeneration(const std::string& directory, const std::string& folder, int devices,
                            Generation& generation);

// Moves a folder of a generation to AsideFolder(), beside what is there. INTERNAL (IO_ERROR).
absl::Status MoveAside(const std::string& directory, const std::string& folder);

}  // namespace remesh::worker
