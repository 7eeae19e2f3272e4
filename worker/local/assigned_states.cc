// SPDX-License-Identifier: Apache-2.0
#include "worker/local/assigned_states.h"

#include <algorithm>
#include <limits>

#include "google/protobuf/util/message_differencer.h"

namespace remesh::worker {

bool AssignedStates::Assign(const v1::Assignment& assignment) {
  v1::Assignment& known = assigned_[assignment.state()];
  earlier_.erase(assignment.state());
  const bool passed = passed_.erase(assignment.state()) > 0;
  if (!passed && known.shards().empty() && assignment.shards().empty() &&
      google::protobuf::util::MessageDifferencer::Equals(known, assignment)) {
    return false;
  }
  const bool stays_committed = known.write_once() && known.committed() &&
                               known.state_uid() == assignment.state_uid() &&
                               known.generation() == assignment.generation();
  known = assignment;
  if (stays_committed) known.set_committed(true);
  return true;
}

void AssignedStates::CommitWrite(const v1::CommitWrite& command) {
  const auto it = assigned_.find(command.state());
  const bool assigned = it != assigned_.end() && it->second.write_once() &&
                        it->second.state_uid() == command.state_uid() &&
                        it->second.generation() == command.generation();
  if (assigned) it->second.set_committed(true);
}

void AssignedStates::Committed(const std::string& state, const std::string& state_uid,
                               int64_t generation) {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || it->second.state_uid() != state_uid) return;
  int64_t& passed = passed_[state];
  passed = std::max(passed, generation);
}

void AssignedStates::Retired(const std::string& state, const std::string& state_uid,
                             int64_t generation) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Committed(state, state_uid, std::min(generation, kMax - 1) + 1);
}

void AssignedStates::TakenBack(const std::string& state, const std::string& state_uid,
                               int64_t generation) {
  const auto it = assigned_.find(state);
  const auto passed = passed_.find(state);
  if (it == assigned_.end() || it->second.state_uid() != state_uid) return;
  if (passed != passed_.end() && passed->second == generation) passed_.erase(passed);
}

void AssignedStates::OnWelcome() {
  std::erase_if(assigned_, [](const auto& entry) { return entry.second.shards().empty(); });
  std::erase_if(passed_, [this](const auto& entry) { return !assigned_.contains(entry.first); });
  for (const auto& [state, assignment] : assigned_) earlier_.insert(state);
}

void AssignedStates::Forget(const std::string& state, const std::string& state_uid) {
  const auto it = assigned_.find(state);
  if (it != assigned_.end() && it->second.state_uid() == state_uid) {
    assigned_.erase(it);
    earlier_.erase(state);
    passed_.erase(state);
  }
}

const v1::Assignment* AssignedStates::Find(const std::string& state) const {
  const auto it = assigned_.find(state);
  return it == assigned_.end() ? nullptr : &it->second;
}

bool AssignedStates::Reported(const std::string& state) const {
  return assigned_.contains(state) && !earlier_.contains(state);
}

const v1::Assignment* AssignedStates::ToBuild(const std::string& state) const {
  const auto it = assigned_.find(state);
  if (it == assigned_.end() || it->second.committed()) return nullptr;
  const auto passed = passed_.find(state);
  const bool over = passed != passed_.end() && passed->second > it->second.generation();
  return over ? nullptr : &it->second;
}

std::optional<int64_t> AssignedStates::Passed(const std::string& state) const {
  const auto passed = passed_.find(state);
  if (passed == passed_.end()) return std::nullopt;
  return passed->second;
}

int64_t AssignedStates::Latest(const std::string& state) const {
  const v1::Assignment* const assigned = Find(state);
  const int64_t generation = assigned == nullptr ? 0 : assigned->generation();
  return std::max(generation, Passed(state).value_or(0));
}

const v1::Assignment* AssignedStates::AssignmentOf(const Generation& held) const {
  const auto it = assigned_.find(held.state());
  if (it == assigned_.end() || it->second.state_uid() != held.state_uid()) return nullptr;
  return &it->second;
}

bool AssignedStates::Current(const Generation& held) const {
  return !assigned_.contains(held.state()) || AssignmentOf(held) != nullptr;
}

bool AssignedStates::IsCommitted(const Generation& held) const {
  if (held.manifest.assignment().committed()) return true;
  const v1::Assignment* const assigned = AssignmentOf(held);
  return assigned != nullptr && assigned->committed() && assigned->generation() == held.number();
}

bool AssignedStates::IsOver(const Generation& held) const {
  const auto passed = passed_.find(held.state());
  return AssignmentOf(held) != nullptr && passed != passed_.end() && passed->second > held.number();
}

int32_t AssignedStates::HostsOf(const Generation& held) const {
  const v1::Assignment* const assigned = AssignmentOf(held);
  const bool known = assigned != nullptr && assigned->generation() == held.number();
  return known ? assigned->hosts() : held.manifest.assignment().hosts();
}

}  // namespace remesh::worker
