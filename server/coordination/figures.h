// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/outcome.h"

namespace remesh::server::coordination {

// What metrics show of all worlds.
struct WorldFigures {
  std::map<v1::World::Phase, int64_t> worlds;
  int64_t members = 0;          // processes, those that wait for a world included
  absl::Duration oldest_round;  // how long the oldest that waits has waited; 0: none does
};

}  // namespace remesh::server::coordination
