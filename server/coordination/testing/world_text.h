// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "server/coordination/outcome.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

// For models, which try every order of events: two worlds with the same text have the same future.

// Appends what tells outcomes apart.
void AppendTo(std::string& text, const Outcome& outcome);
// Appends all that decides what the world does next. Times are from `now`: worlds that differ in
// nothing else are one.
void AppendTo(std::string& text, const World& world, absl::Time now);

// As if the server did not wait for all members after its restart.
void EndReturnEarly(World& world);

}  // namespace remesh::server::coordination
