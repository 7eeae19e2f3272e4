// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/conformance/transport_conformance.h"

namespace remesh::worker::conformance {

using MakeTransport = std::function<std::unique_ptr<Transport>()>;

// A victim in a process of its own: this binary, started again with --victim.
std::unique_ptr<Victim> NewProcessVictim();

// The transport. Ends the process with the error if there is none.
std::unique_ptr<Transport> OrDie(absl::StatusOr<std::unique_ptr<Transport>> transport);

// Transports on loopback that one function makes; victims are processes.
class LoopbackWorld : public World {
 public:
  explicit LoopbackWorld(MakeTransport make) : make_(std::move(make)) {}

  std::unique_ptr<Transport> NewTransport() override { return make_(); }
  std::string DeadAddress() override { return make_()->address(); }
  std::string MalformedAddress() override { return "localhost"; }
  std::unique_ptr<Victim> NewVictim() override { return NewProcessVictim(); }

 private:
  const MakeTransport make_;
};

// What such a process does first: prints "address " and its address, and reads "address token" of
// each peer until an empty line.
std::vector<Peer> MeetParent(const Transport& transport);

// main() of a binary whose victims are processes: runs the tests, or with --victim what a victim
// does until it is killed.
int RunTestsOrVictim(int argc, char** argv, const MakeTransport& make);

}  // namespace remesh::worker::conformance
