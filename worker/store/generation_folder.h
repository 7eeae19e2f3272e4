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

// A generation is in DIRECTORY/STATE/NUMBER of the buffer directory: its files and this manifest,
// which is written last.
inline constexpr char kManifest[] = "/manifest";
std::string GenerationFolder(const std::string& directory, const std::string& state,
                             int64_t generation);
// The folder for generations that cannot be understood.
std::string AsideFolder(const std::string& directory);

// The folders in a folder, sorted; none if it is absent. INTERNAL (IO_ERROR) if it cannot be listed
// completely.
absl::StatusOr<std::vector<std::string>> FoldersIn(const std::string& folder);

// The files whose bytes are in the memory of devices instead.
std::set<std::string> FilesElsewhere(const worker::GenerationManifest& manifest);

// Checks that a folder in the buffer directory is this user's own and no link, and that others may
// not change it. DATA_LOSS says why not.
absl::Status TakeFolder(const std::string& folder);

// Reads what an earlier life left in `folder`, except the memory of devices. NOT_FOUND: it has no
// manifest, so it was never completed; DATA_LOSS or INVALID_ARGUMENT: it is of no use, and the
// message says why.
absl::Status ReadGeneration(const std::string& directory, const std::string& folder, int devices,
                            Generation& generation);

// Moves a generation's folder to AsideFolder(), beside those that are there. INTERNAL (IO_ERROR).
absl::Status MoveAside(const std::string& directory, const std::string& folder);

}  // namespace remesh::worker
