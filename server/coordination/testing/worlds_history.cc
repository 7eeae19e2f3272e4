// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/testing/worlds_history.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace remesh::server::coordination {

bool EndsWorld(const std::string& ending) {
  return ending == "MEMBER_LOST" || ending == "RESULTS_DIFFER" || ending == "OVER";
}

void WorldsHistory::OnRaised(const std::string& scope, int64_t epoch) {
  Count("worlds");
  const bool added = scopes_.emplace(epoch, scope).second;
  if (!added) Violate(absl::StrCat("epoch ", epoch, " is given twice"));
  if (epoch <= formed_[scope]) Violate("an epoch does not rise");
}

void WorldsHistory::OnFormed(const std::string& scope, int64_t epoch) {
  const auto raised = scopes_.find(epoch);
  if (raised == scopes_.end()) return Violate("Formed names an epoch that was never raised");
  if (raised->second != scope) Violate("Formed names another world's epoch");
  int64_t& highest = formed_[raised->second];
  highest = std::max(highest, epoch);
}

void WorldsHistory::OnResult(const std::string& scope, int64_t epoch, uint64_t sequence, int rank,
                             Result result) {
  Count(absl::StrCat("results ", result.ending));
  epochs_[scope][epoch].rounds[sequence][rank] = std::move(result);
}

void WorldsHistory::OnStepAgreed(const std::string& scope, int64_t epoch, int64_t step,
                                 int64_t own) {
  std::optional<int64_t>& agreed = epochs_[scope][epoch].step;
  if (!agreed) agreed = step;
  if (*agreed != step) Violate("members agree on different steps");
  if (step <= own) Violate("a member is beyond the step that it agreed on");
}

void WorldsHistory::OnWrite(const std::string& scope, int64_t epoch, bool passes) {
  Count(passes ? "writes that pass" : "writes that are refused");
  if (!passes || formed_[scope] <= epoch) return;
  Violate(absl::StrCat("a write of epoch ", epoch, " passes after world ", formed_[scope],
                       " has formed"));
}

void WorldsHistory::CheckRounds() {
  for (const auto& [scope, epochs] : epochs_) {
    for (const auto& [number, epoch] : epochs) {
      CheckRounds(absl::StrCat(scope, " epoch ", number), epoch);
    }
  }
}

// Of two members one may have a result and another the world's end, but in its last round only.
void WorldsHistory::CheckRounds(const std::string& epoch_name, const Epoch& epoch) {
  uint64_t last_ok = 0;
  for (const auto& [sequence, results] : epoch.rounds) {
    for (const auto& [rank, result] : results) {
      if (result.ending == "OK") last_ok = sequence;
    }
  }
  for (const auto& [sequence, results] : epoch.rounds) {
    CheckRound(absl::StrCat(epoch_name, " round ", sequence, ": "), results, sequence < last_ok);
  }
}

void WorldsHistory::CheckRound(const std::string& where, const Results& results, bool later_ok) {
  const Result* first = nullptr;
  std::set<std::string> payloads;  // of those who get any
  for (const auto& [rank, result] : results) {
    if (!result.payload.empty()) payloads.insert(result.payload);
    if (EndsWorld(result.ending)) {
      if (later_ok) Violate(where + "ends the world, but a later one is OK");
      continue;
    }
    if (first == nullptr) first = &result;
    if (result.ending == first->ending && result.what == first->what) continue;
    Violate(absl::StrCat(where, first->ending, " for one, ", result.ending,
                         " for another, or not the same"));
  }
  if (payloads.size() > 1) Violate(where + "members have different payloads");
}

void WorldsHistory::Violate(const std::string& what) {
  const std::string when = absl::FormatDuration(schedule_.now() - absl::UnixEpoch());
  violations_.push_back(absl::StrCat("seed ", seed_, ", ", when, ": ", what));
}

}  // namespace remesh::server::coordination
