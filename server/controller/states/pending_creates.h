// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/controller/states/state_registry.h"
#include "server/controller/values/event.h"

namespace remesh::server {

// A state that is being journaled: it does not exist yet, and its name is taken.
struct PendingCreate {
  std::vector<CallId> calls;
  std::vector<CallId> refused;  // of others, once the state exists for everyone
  StateEntry entry;
};

using PendingCreates = std::map<std::string, PendingCreate>;  // by state name

}  // namespace remesh::server
