// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/controller/states/state_registry.h"

namespace remesh::server {

// States of which generation 1 is written and sealed once (State.write_once). A commit ends the
// writing: once every host has sealed its shards, a record of that goes to the journal. The state
// is BUILDING until the record is durable, so a save that was READY once stays whole or is lost:
//
//   kNone ── every host has sealed ──> kOnItsWay ── the journal has the record ──> kDurable
//
// A host that comes back without its shards before kDurable may be filled again, so while the
// record is on its way such a host is not assigned anything: it could fill shards of what is
// committed. The same holds after a start of the server until every host of the state has attached,
// for the journal may be older than the commit, and a host that knows of the commit says so when it
// attaches.

// Whether the content of the state's generation never changes any more: generation 1 of a
// write_once state, committed. Then names of writes mean nothing, and what a host has unsealed is
// lost there.
bool IsFixed(const StateEntry& state);

// Whether the worker does not know write_once, as after a downgrade, and the state's generation is
// written once. Its trainers may unseal shards, so nothing counts that it holds: the state is not
// READY with it, and a committed one is lost there until the worker is upgraded.
bool IsTooOld(const StateEntry& state, const WorkerEntry& worker);

// FAILED_PRECONDITION (WORKER_TOO_OLD) names the hosts of the layout whose workers do not know
// write_once.
absl::Status CheckKnowWriteOnce(const PlacedState& placed, const WorkerRegistry& workers);
// Attached hosts of the state whose workers are too old, sorted.
std::vector<std::string> TooOldHosts(const StateEntry& state, const WorkerRegistry& workers);

// Whether the state's generation is to be committed now: it is written once, no commit is on its
// way, and every host has sealed the same write, or one of them knew of the commit before an
// older journal took the place of the server's.
bool IsToCommit(StateEntry& state, const WorkerRegistry& workers);

// Whether the host, which has not sealed its shards, is assigned nothing for now: the state is
// being committed, or may have been, as a host that has not attached yet could say.
bool IsHeldBack(const StateEntry& state, const WorkerRegistry& workers, const std::string& host);

// Hosts that came back without their shards, and are assigned nothing for now.
std::set<std::string> HeldBackHosts(const StateEntry& state, const WorkerRegistry& workers);

v1::AttachResponse ToCommitWrite(const StateEntry& state);

}  // namespace remesh::server
