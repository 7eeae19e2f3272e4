// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/controller/values/saved_world.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {

// Present epochs as the journal has them, and as the coordinator knows them.

// The present epochs of the worlds, by scope. REQUIRES: none of them is forgotten.
std::map<std::string, KnownEpoch> EpochsOf(const SaveWorlds& known);

// A request to store the present epoch of a scope, or to forget the scope.
SaveWorlds SaveOf(const std::string& scope, const std::optional<KnownEpoch>& present,
                  int64_t last_epoch);

// Forgets all of `worlds`, and returns the request that does so in the journal. After the journal went
// back: a world that it lacks may have formed, so no fence of a world that it has may pass, and no
// epoch may be given that it may have forgotten.
SaveWorlds ForgetAll(SaveWorlds& worlds, absl::Time now);

}  // namespace remesh::server::coordination
