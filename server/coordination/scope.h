// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/formed_world.h"
#include "server/coordination/forming.h"
#include "server/coordination/process.h"
#include "server/coordination/step_agreement.h"
#include "server/coordination/world.h"

namespace remesh::server::coordination {

// Bytes of what a world's members tell one another: as each gets it, and as all together do.
inline constexpr size_t kFormedMax = size_t{2} << 20;
inline constexpr size_t kFormedInAllMax = size_t{1} << 30;
// Of a world that is listed: bytes from which on device ids are left out, and rounds that wait, of
// which each names its absent members.
inline constexpr size_t kWorldBytesMax = size_t{1} << 20;
inline constexpr size_t kListedRoundsMax = 16;
// Under this name, and before the rounds, a world that was asked to leave lists whom it waits for to
// name a step.
inline constexpr char kAgreementName[] = "AgreeStep";

// Members of a world whose epoch is being written.
struct Saving {
  std::string attempt;
  int64_t epoch = 0;
  std::vector<Candidate> members;  // by rank; session 0: its stream has ended
};

// What the server knows of one scope. A value.
struct Scope {
  int64_t epoch = 0;           // the present one; 0: no world has formed
  int size = 0;                // of its world
  std::optional<World> world;  // none: no member has joined again since the server's start
  std::vector<Process> members;
  std::string attempt;
  int min_size = 0;
  int max_size = 0;
  absl::Time since;  // it came into this phase
  bool told_over = false;
  std::map<std::string, Forming> forming;  // by attempt; none is empty
  std::optional<Saving> saving;
  std::optional<v1::WorldEvent::Preempt> preempt;
  absl::Time preempted;  // when the first report came
  StepAgreement steps;
  size_t held = 0;  // bytes of payloads, as the registry counts them
};

// The scope's next world begins, with these members.
void StartWorld(Scope& scope, const Saving& saved, absl::Time now);
// Whether its world has members that may still exchange.
bool Lives(const Scope& scope);
// Whether none is a member, waits for a world or will be a member once an epoch is on disk.
bool HasNoProcess(const Scope& scope);
// The rank of this process in the world that lives.
std::optional<int> RankOf(const Scope& scope, const std::string& nonce);
// The member's stream, unless it has left: then its stream ends.
std::optional<SessionId> OpenSession(const Scope& scope, int rank);
// The process, if it will be a member of the world whose epoch is being written; else null.
Candidate* FindSaving(Scope& scope, const std::string& nonce);
// ALREADY_EXISTS (RANK_TAKEN): a living member of the world is never displaced.
absl::Status CheckNotTaken(const Scope& scope, const Candidate& candidate);
// What its members receive when the world has formed.
std::shared_ptr<const FormedWorld> FormedOf(const Scope& scope, bool with_members);

v1::World::Phase PhaseOf(const Scope& scope);
// As it is listed.
v1::World Describe(const std::string& name, const Scope& scope);

}  // namespace remesh::server::coordination
