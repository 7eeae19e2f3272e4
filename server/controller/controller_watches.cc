// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/controller/controller.h"
#include "server/controller/names.h"

namespace remesh {
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

void Controller::OnWatch(const WatchStarted& watch) {
  if (absl::Status status = CheckWatchable(watch.name); !status.ok()) {
    out_.push_back(EndWatch{.watch = watch.id, .status = status});
  } else if (TellWatch(watch.id, watch.name)) {
    watches_[watch.id] = watch.name;
    watchers_[watch.name].insert(watch.id);
  }
}

void Controller::OnWatchEnded(WatchId watch) {
  auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  auto watchers = watchers_.find(found->second);
  watchers->second.erase(watch);
  if (watchers->second.empty()) watchers_.erase(watchers);
  watches_.erase(found);
}

bool Controller::TellWatch(WatchId watch, const std::string& name) {
  if (const StateEntry* state = states_.Find(name)) {
    out_.push_back(Notify{.watch = watch, .value = ToProto(*state, workers_)});
    return true;
  }
  auto move = moves_.find(name);
  if (move == moves_.end()) {
    out_.push_back(EndWatch{.watch = watch, .status = NotFound(name)});
    return false;
  }
  out_.push_back(Notify{.watch = watch, .value = move->second.execution.resource()});
  if (!move->second.execution.ended()) return true;
  out_.push_back(EndWatch{.watch = watch, .status = absl::OkStatus()});
  return false;
}

void Controller::TellWatchers() {
  for (const std::string& name : touched_) {
    auto watchers = watchers_.find(name);
    if (watchers == watchers_.end()) continue;
    for (const WatchId watch : std::set<WatchId>(watchers->second)) {
      if (!TellWatch(watch, name)) OnWatchEnded(watch);
    }
  }
  touched_.clear();
}

}  // namespace remesh
