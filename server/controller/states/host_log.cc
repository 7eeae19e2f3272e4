// SPDX-License-Identifier: Apache-2.0
#include "server/controller/states/host_log.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/controller/states/write_once.h"

namespace remesh::server {
namespace {

// At most 8 of them, after `what`; "" if there are none.
std::string Some(std::string_view what, const std::vector<std::string>& names) {
  constexpr size_t kNamed = 8;
  if (names.empty()) return "";
  const size_t named = std::min(names.size(), kNamed);
  const size_t more = names.size() - named;
  return absl::StrCat(std::string(what), absl::StrJoin(names.begin(), names.begin() + named, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace

std::string AwayLine(const HostAway& away, const std::vector<std::string>& states,
                     const StateRegistry& registry, const WorkerRegistry& workers) {
  constexpr size_t kLookedAt = 256;  // hosts
  std::vector<std::string> lost, degraded, either;
  for (const std::string& name : states) {
    const StateEntry& state = *registry.Find(name);
    if (state.placed->hosts.size() > kLookedAt) {
      either.push_back(name);
      continue;
    }
    const bool is_degraded = ReportedPhase(state, workers) == v1::State::DEGRADED;
    (is_degraded ? degraded : lost).push_back(name);
  }
  return absl::StrCat("host ", away.host, " is away: ", away.why.message(),
                      Some("; LOST until it is back: ", lost),
                      Some("; DEGRADED until it is back: ", degraded),
                      Some("; LOST or DEGRADED until it is back: ", either));
}

std::string ReturnedWithoutLine(const std::string& host, const StateEntry& state,
                                const WorkerRegistry& workers) {
  const std::string& name = state.name();
  const bool holds = workers.Find(host)->Manifest(name, state.uid(), state.generation()) != nullptr;
  // PhaseOf() looks at all hosts, so it comes last: when the server restarts, all hosts attach.
  if (holds || PhaseOf(state, workers) != v1::State::LOST) return "";
  const std::string phase = v1::State::Phase_Name(ReportedPhase(state, workers));
  return absl::StrCat(name, " is ", phase, ": host ", host, " came back without its shards");
}

std::string TooOldLine(const std::string& host, const StateRegistry& registry,
                       const WorkerRegistry& workers) {
  std::vector<std::string> states;
  for (const std::string& name : registry.NamesOn(host)) {
    if (IsTooOld(*registry.Find(name), *workers.Find(host))) states.push_back(name);
  }
  const std::string which =
      Some(" must be upgraded: until then no shard counts that it holds of ", states);
  return which.empty() ? "" : absl::StrCat("the worker of host ", host, which);
}

}  // namespace remesh::server
