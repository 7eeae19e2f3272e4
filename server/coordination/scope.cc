// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/scope.h"

#include "server/coordination/messages.h"

namespace remesh::server::coordination {
namespace {

// Of a member, in a message.
size_t MemberBytesMax(const Process& process) {
  constexpr size_t kNumbers = 32;  // and tags
  return process.host.size() + process.data.size() + 10 * process.device_ids.size() + kNumbers;
}

// The processes that wait, instead of the members of the last world.
void ShowForming(const Scope& scope, v1::World& world) {
  const auto& [attempt, forming] = *scope.forming.begin();
  world.set_attempt(attempt);
  world.set_min_size(forming.waiting().begin()->second.min_size);
  world.set_max_size(forming.waiting().begin()->second.max_size);
  world.clear_members();
  for (const auto& [order, each] : forming.waiting()) {
    *world.add_members() = ListedMemberOf(each.process, each.rank);
  }
}

// As a round that waits: the members that have not named their step since they were asked to leave.
// It stays when the world ends without an answer.
void ShowAgreement(const Scope& scope, v1::World& world) {
  if (!scope.preempt) return;
  *world.mutable_preempt() = *scope.preempt;
  if (scope.steps.agreed() != nullptr) return;
  v1::World::Waiting& waiting = *world.add_waiting();
  waiting.set_name(kAgreementName);
  waiting.set_mode(v1::Contribution::BARRIER);
  *waiting.mutable_since() = TimestampOf(scope.preempted);
  for (int rank = 0; rank < scope.size; ++rank) {
    if (!scope.steps.HasCalled(rank)) waiting.add_absent(rank);
  }
}

v1::World DescribeWhole(const std::string& name, const Scope& scope) {
  v1::World world;
  world.set_name(name);
  world.set_epoch(scope.epoch);
  world.set_attempt(scope.attempt);
  world.set_min_size(scope.min_size);
  world.set_max_size(scope.max_size);
  *world.mutable_since() = TimestampOf(scope.since);
  world.set_phase(PhaseOf(scope));
  ShowAgreement(scope, world);
  if (scope.world) {
    for (int rank = 0; rank < scope.size; ++rank) {
      if (!scope.world->SessionOf(rank)) continue;
      *world.add_members() = ListedMemberOf(scope.members[rank], rank);
    }
    for (const World::Waiting& each : scope.world->WaitingRounds(kListedRoundsMax)) {
      *world.add_waiting() = WaitingOf(each);
    }
    if (scope.world->over() != nullptr) world.set_over(scope.world->over()->message);
  }
  if (world.phase() == v1::World::FORMING && !scope.forming.empty()) ShowForming(scope, world);
  return world;
}

}  // namespace

void StartWorld(Scope& scope, const Saving& saved, absl::Time now) {
  scope.epoch = saved.epoch;
  scope.size = static_cast<int>(saved.members.size());
  scope.attempt = saved.attempt;
  scope.min_size = saved.members.front().min_size;
  scope.max_size = saved.members.front().max_size;
  scope.since = now;
  scope.told_over = false;
  scope.preempt.reset();
  scope.steps = {};
  scope.members.clear();
  std::vector<Member> members;
  std::vector<SessionId> sessions;
  for (const Candidate& each : saved.members) {
    scope.members.push_back(each.process);
    members.push_back({each.process.nonce, each.process.host});
    sessions.push_back(each.session);
  }
  scope.world.emplace(std::move(members), sessions);
  scope.world->OnSessionEnd(0, now);  // of those whose stream has ended
}

bool Lives(const Scope& scope) { return scope.world && scope.world->over() == nullptr; }

bool HasNoProcess(const Scope& scope) {
  return !Lives(scope) && !scope.saving && scope.forming.empty();
}

std::optional<int> RankOf(const Scope& scope, const std::string& nonce) {
  if (!Lives(scope)) return std::nullopt;
  for (int rank = 0; rank < scope.size; ++rank) {
    if (scope.members[rank].nonce == nonce) return rank;
  }
  return std::nullopt;
}

std::optional<SessionId> OpenSession(const Scope& scope, int rank) {
  if (scope.world->HasLeft(rank)) return std::nullopt;
  return scope.world->SessionOf(rank);
}

Candidate* FindSaving(Scope& scope, const std::string& nonce) {
  if (!scope.saving) return nullptr;
  for (Candidate& each : scope.saving->members) {
    if (each.process.nonce == nonce) return &each;
  }
  return nullptr;
}

absl::Status CheckNotTaken(const Scope& scope, const Candidate& candidate) {
  if (!Lives(scope)) return absl::OkStatus();
  for (int rank = 0; rank < scope.size; ++rank) {
    if (!scope.world->SessionOf(rank) || scope.world->HasLeft(rank)) continue;
    const Process& holder = scope.members[rank];
    const Process& process = candidate.process;
    const bool same_place =
        holder.host == process.host && holder.local_index == process.local_index;
    const bool taken = candidate.rank == -1 ? same_place : candidate.rank == rank;
    if (taken) return RankTaken(holder, rank);
  }
  return absl::OkStatus();
}

std::shared_ptr<const FormedWorld> FormedOf(const Scope& scope, bool with_members) {
  auto formed = std::make_shared<FormedWorld>();
  formed->epoch = scope.epoch;
  formed->size = scope.size;
  if (!with_members) return formed;
  size_t bytes = 0;
  for (const Process& each : scope.members) bytes += MemberBytesMax(each);
  const bool all = bytes <= kFormedMax && bytes <= kFormedInAllMax / scope.members.size();
  formed->members = all ? scope.members : std::vector<Process>{scope.members.front()};
  return formed;
}

v1::World Describe(const std::string& name, const Scope& scope) {
  v1::World world = DescribeWhole(name, scope);
  if (world.ByteSizeLong() <= kWorldBytesMax) return world;
  for (v1::WorldMember& member : *world.mutable_members()) member.clear_device_ids();
  return world;
}

v1::World::Phase PhaseOf(const Scope& scope) {
  if (Lives(scope)) return scope.world->returning() ? v1::World::RETURNING : v1::World::FORMED;
  if (scope.saving || !scope.forming.empty()) return v1::World::FORMING;
  return scope.world ? v1::World::OVER : v1::World::RETURNING;
}

}  // namespace remesh::server::coordination
