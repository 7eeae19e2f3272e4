// SPDX-License-Identifier: Apache-2.0
#include "server/controller/watches/watches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/controller/values/names.h"

namespace remesh::server {
namespace {

absl::Status NotFound(const std::string& name) {
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " does not exist"),
                   {.reason = "NOT_FOUND", .metadata = {{"name", name}}});
}

absl::Status CheckWatchable(const std::string& name) {
  if (name.find("/executions/") != std::string::npos)
    return ParseExecutionName("name", name).status();
  return ParseStateName("name", name).status();
}

}  // namespace

void Watches::OnStarted(const WatchStarted& watch, Outbox& out) {
  if (absl::Status status = CheckWatchable(watch.name); !status.ok()) {
    out.Add(EndWatch{.watch = watch.id, .status = status});
  } else if (NotifyWatch(watch.id, watch.name, StandingOf(watch.name), out)) {
    watches_[watch.id] = watch.name;
    watchers_[watch.name].insert(watch.id);
  }
}

void Watches::OnEnded(WatchId watch) {
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  const auto watchers = watchers_.find(found->second);
  watchers->second.erase(watch);
  if (watchers->second.empty()) watchers_.erase(watchers);
  watches_.erase(found);
}

Watches::Standing Watches::StandingOf(const std::string& name) const {
  if (const StateEntry* state = states_.Find(name)) {
    return {.value = std::make_shared<const Reply>(ToProto(*state, workers_))};
  }
  const ExecutionEntry* entry = executions_.Find(name);
  if (entry == nullptr) return {};
  return {.value = std::make_shared<const Reply>(entry->execution.resource()),
          .last = entry->execution.ended()};
}

// Returns false when the watch has ended.
bool Watches::NotifyWatch(WatchId watch, const std::string& name, const Standing& standing,
                          Outbox& out) const {
  if (standing.value == nullptr) {
    out.Add(EndWatch{.watch = watch, .status = NotFound(name)});
    return false;
  }
  out.Add(Notify{.watch = watch, .value = standing.value});
  if (standing.last) out.Add(EndWatch{.watch = watch, .status = absl::OkStatus()});
  return !standing.last;
}

// Whether its watchers are sent every change. The last change is always sent at once.
bool Watches::IsPrompt(const std::string& name) const {
  if (const StateEntry* state = states_.Find(name)) {
    return state->placed->hosts.size() <= kPromptHosts;
  }
  const ExecutionEntry* entry = executions_.Find(name);
  if (entry == nullptr || entry->execution.ended()) return true;
  return entry->execution.spec().participants.size() <= kPromptHosts;
}

void Watches::NotifyTouched(Outbox& out) {
  for (const std::string& name : out.TakeTouched()) {
    if (!watchers_.contains(name)) continue;
    if (IsPrompt(name)) {
      NotifyWatchers(name, out);
    } else {
      untold_.insert(name);
    }
  }
}

void Watches::OnTick(Outbox& out) {
  for (const std::string& name : std::exchange(untold_, {})) NotifyWatchers(name, out);
}

void Watches::NotifyWatchers(const std::string& name, Outbox& out) {
  untold_.erase(name);
  const auto watchers = watchers_.find(name);
  if (watchers == watchers_.end()) return;
  const Standing standing = StandingOf(name);
  for (const WatchId watch : std::set<WatchId>(watchers->second)) {
    if (!NotifyWatch(watch, name, standing, out)) OnEnded(watch);
  }
}

}  // namespace remesh::server
