// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/testing/registry_moment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordination/testing/world_text.h"

namespace remesh::server::coordination {

class RegistryTestPeer {
 public:
  // All that decides what the registry does next with its only scope.
  static void AppendTo(std::string& text, const Registry& registry, absl::Time now) {
    absl::StrAppend(&text, registry.last_epoch_, ",",
                    std::max<int64_t>(0, absl::ToInt64Seconds(registry.return_until_ - now)));
    for (const auto& [name, scope] : registry.scopes_) AppendTo(text, scope, now);
    std::vector<SessionId> sessions;
    for (const auto& [session, scope] : registry.sessions_) sessions.push_back(session);
    std::sort(sessions.begin(), sessions.end());
    absl::StrAppend(&text, "|", absl::StrJoin(sessions, ","));
  }

 private:
  static void AppendTo(std::string& text, const Scope& scope, absl::Time now) {
    absl::StrAppend(&text, ";", scope.epoch, ",", scope.size, ",", scope.told_over, ";");
    if (scope.world) coordination::AppendTo(text, *scope.world, now);
    for (const auto& [attempt, forming] : scope.forming) {
      for (const auto& [order, each] : forming.waiting()) {
        absl::StrAppend(&text, "?", each.process.nonce, ",", each.session, ",",
                        absl::ToInt64Seconds(each.deadline - now));
      }
    }
    if (scope.saving) absl::StrAppend(&text, "!", scope.saving->epoch);
    if (scope.saving) {
      for (const Candidate& each : scope.saving->members) absl::StrAppend(&text, ",", each.session);
    }
    const AgreedStep* const agreed = scope.steps.agreed();
    absl::StrAppend(&text, ";", absl::ToInt64Seconds(scope.steps.NextTime() - now), ",",
                    agreed == nullptr ? -1 : agreed->step);
  }
};

namespace {

void AppendTo(std::string& text, const ModelProcess& process) {
  absl::StrAppend(&text, "#", process.generation, process.streams, process.waits,
                  static_cast<int>(process.next), ",", process.epoch, ",",
                  process.agreed.value_or(-1), ",", process.formed.value_or(-1), ",",
                  process.answer.value_or("-"), ",", process.ended.value_or("-"));
  for (const Finished& each : process.finished) AppendTo(text.append(";"), each.outcome);
}

}  // namespace

std::string TrailOf(const Moment& moment) {
  std::vector<std::string> lines;
  for (const Step* step = moment.last.get(); step != nullptr; step = step->before.get()) {
    lines.push_back(step->place < 0 ? step->what : absl::StrCat(step->place, " ", step->what));
  }
  std::reverse(lines.begin(), lines.end());
  return absl::StrCat("\n  ", absl::StrJoin(lines, "\n  "));
}

std::string TextOf(const Moment& moment) {
  std::string text;
  RegistryTestPeer::AppendTo(text, moment.registry, moment.now);
  for (const ModelProcess& process : moment.processes) AppendTo(text, process);
  absl::StrAppend(&text, "#", moment.fence, ",", moment.disk.last_epoch, ",",
                  moment.save ? moment.save->epoch : 0, ",", moment.saved, ",", moment.restarts,
                  ",", moment.timeouts, ",", moment.deaths, ",", moment.highest_formed);
  for (const auto& [epoch, step] : moment.steps) absl::StrAppend(&text, ";", epoch, "=", step);
  return text;
}

}  // namespace remesh::server::coordination
