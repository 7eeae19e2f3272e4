// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/controller/leadership/journal_queue.h"
#include "server/controller/membership/membership.h"
#include "server/controller/states/state_registry.h"
#include "server/controller/values/event.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// What CreateState asks for: whether there may be such a state, and what it begins as.

// Why the spec fits no devices. Just after a start of the server they may be those of hosts on
// their way back, the `awaited` ones.
absl::Status WhyMisfit(const absl::Status& misfit, const std::vector<std::string>& awaited);

// INVALID_ARGUMENT: a field is missing or out of range. RESOURCE_EXHAUSTED: JOURNAL_FULL, or
// HOST_MEMORY if a host could not hold its part of the state even if it held nothing else. Errors of
// CheckNotDrained(), CheckHost() and CheckKnowWriteOnce(). See StateLimits for how much there may be
// in all.
absl::Status CheckCreate(const CreateState& request, const JournalQueue& journal,
                         const Membership& membership);

// The state as requested, without a uid.
StateEntry NewEntry(const CreateState& request, const std::string& digest, Moment now);

// The journal's records of a new state.
std::vector<Record> RecordsOfNew(const StateEntry& entry);

}  // namespace remesh::server
