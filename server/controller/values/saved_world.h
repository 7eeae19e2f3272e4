// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace remesh::server {

// What the journal keeps of the present world of a scope, jobs/{job}/worlds/{world}: enough to let
// its members join it again and to refuse calls of earlier worlds. The controller only stores it.
struct SavedWorld {
  int64_t epoch = 0;
  int size = 0;       // members
  absl::Time formed;  // in whole seconds

  friend bool operator==(const SavedWorld&, const SavedWorld&) = default;
};

// A request to store worlds, and the highest epoch that was ever given. No world: the scope is
// forgotten. Answered with Empty once it is on disk.
struct SaveWorlds {
  int64_t last_epoch = 0;
  std::map<std::string, std::optional<SavedWorld>> worlds;  // by scope
};

}  // namespace remesh::server
