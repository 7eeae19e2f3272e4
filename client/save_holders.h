// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "remesh/v1/state.pb.h"

namespace remesh::client {

// Which hosts hold a save, and what the loss of one costs.
struct SaveHolders {
  std::map<std::string, int64_t> bytes;  // that each host should hold, those away included
  bool covered = false;                  // the hosts that are there hold all of it
  // Of a covered save: hosts that are there and hold what no other host that is there does. If one
  // of them goes, with its memory, the save cannot be restored.
  std::set<std::string> needed;
};

// Of a state as the server shows it, with its spec. An error if the spec cannot be laid out.
absl::StatusOr<SaveHolders> HoldersOf(const v1::State& state);

}  // namespace remesh::client
