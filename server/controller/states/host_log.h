// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "server/controller/membership/membership.h"
#include "server/controller/states/state_registry.h"

namespace remesh::server {

// Lines of the log about a host and the states that it has shards of, for people. Pure.

// The host is away, and so its states are LOST or DEGRADED. Whether what is left covers a state of
// many hosts is not looked at: the hosts of a whole network may go one after another.
std::string AwayLine(const HostAway& away, const std::vector<std::string>& states,
                     const StateRegistry& registry, const WorkerRegistry& workers);

// The host came back without its shards of the state, which is LOST; "" if that is not so. REQUIRES:
// the host is attached.
std::string ReturnedWithoutLine(const std::string& host, const StateEntry& state,
                                const WorkerRegistry& workers);

// The worker is so old that its shards of some states do not count; "" if they all do. REQUIRES: the
// host is attached.
std::string TooOldLine(const std::string& host, const StateRegistry& registry,
                       const WorkerRegistry& workers);

}  // namespace remesh::server
