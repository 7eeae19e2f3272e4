// SPDX-License-Identifier: Apache-2.0
#include "client/watch/plan_changes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh::client {
namespace {

std::string PinnedOf(const v1::Plan& plan) { return plan.pinned() ? "yes" : "no"; }
std::string TierOf(const v1::Plan& plan) { return plan.tier() == v1::DISK ? "disk" : "memory"; }
std::string StatesOf(const v1::Plan& plan) {
  return plan.states().empty() ? "none" : absl::StrJoin(plan.states(), ",");
}

// "" if nothing has changed that is worth a line.
std::string WhatChanged(const v1::Plan& before, const v1::Plan& now) {
  std::vector<std::string> changes;
  const auto compare = [&](const char* field, const std::string& old, const std::string& current) {
    if (old != current) changes.push_back(absl::StrCat(field, " ", old, " -> ", current));
  };
  compare("pinned", PinnedOf(before), PinnedOf(now));
  compare("tier", TierOf(before), TierOf(now));
  compare("states", StatesOf(before), StatesOf(now));
  const bool made_again =
      before.create_time().SerializeAsString() != now.create_time().SerializeAsString();
  if (made_again) changes.push_back("made again");
  return absl::StrJoin(changes, ", ");
}

}  // namespace

std::string KindOf(const PlanChange& change) {
  switch (change.kind) {
    case PlanChange::Kind::kExisting:
      return "EXISTING";
    case PlanChange::Kind::kNew:
      return "NEW";
    case PlanChange::Kind::kChanged:
      return "CHANGED";
    case PlanChange::Kind::kGone:
      break;
  }
  return "GONE";
}

std::string LineOf(const PlanChange& change) {
  std::string line = absl::StrCat(KindOf(change), " ", change.plan.name());
  if (!change.what.empty()) absl::StrAppend(&line, ": ", change.what);
  return line;
}

std::vector<PlanChange> PlanChanges::Next(const Plans& listed) {
  using Kind = PlanChange::Kind;
  const Kind unknown = std::exchange(first_, false) ? Kind::kExisting : Kind::kNew;
  std::map<std::string, v1::Plan> before = std::exchange(known_, {});
  std::vector<PlanChange> changes;
  for (const v1::Plan& plan : listed) {
    // A plan that is made again while the pages are read may be on two of them.
    if (!known_.try_emplace(plan.name(), plan).second) continue;
    const auto old = before.extract(plan.name());
    if (old.empty()) {
      changes.push_back({.kind = unknown, .plan = plan});
      continue;
    }
    const std::string what = WhatChanged(old.mapped(), plan);
    if (!what.empty()) changes.push_back({.kind = Kind::kChanged, .plan = plan, .what = what});
  }
  for (auto& [name, plan] : before) {
    changes.push_back({.kind = Kind::kGone, .plan = std::move(plan)});
  }
  return changes;
}

}  // namespace remesh::client
