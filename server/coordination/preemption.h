// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/scope.h"

namespace remesh::server::coordination {

// What members receive when one more report asks them to leave: of several the last size and the
// earliest deadline hold.
v1::WorldEvent::Preempt Merged(v1::WorldEvent::Preempt before, v1::WorldEvent::Preempt next);

// FAILED_PRECONDITION: WORLD_OVER if the scope's world has no members, WORLD_LEAVES if they have
// agreed on the step at which they leave.
absl::Status CheckMayBeAskedToLeave(const std::string& name, const Scope& scope);

}  // namespace remesh::server::coordination
