// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/conformance/transport_conformance.h"

namespace remesh::worker::conformance {

using MakeTransport = std::function<std::unique_ptr<Transport>()>;

// A victim in a process of its own: this binary, started again with --victim.
std::unique_ptr<Victim> NewProcessVictim();

// What such a process does first: prints "address " and its address, and reads "address token" of
// each peer until an empty line.
std::vector<Peer> MeetParent(const Transport& transport);

// main() of a binary whose victims are processes: runs the tests, or with --victim what a victim
// does until it is killed.
int RunTestsOrVictim(int argc, char** argv, const MakeTransport& make);

}  // namespace remesh::worker::conformance
