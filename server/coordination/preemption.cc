// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/preemption.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server::coordination {
namespace {

absl::Status NotNow(const std::string& scope, const std::string& why, const char* reason) {
  return MakeError(absl::StatusCode::kFailedPrecondition, absl::StrCat(scope, ": ", why),
                   {.reason = reason, .metadata = {{"scope", scope}}});
}

}  // namespace

v1::WorldEvent::Preempt Merged(v1::WorldEvent::Preempt before, v1::WorldEvent::Preempt next) {
  const bool sized = next.next_size() != 0;
  if (sized) before.set_next_size(next.next_size());
  if (sized || before.by().empty()) before.set_by(next.by());
  before.set_resize(before.resize() || next.resize() || sized);
  if (!next.has_deadline()) return before;
  const auto when = [](const auto& each) {
    return std::pair(each.deadline().seconds(), each.deadline().nanos());
  };
  if (!before.has_deadline() || when(next) < when(before)) {
    *before.mutable_deadline() = next.deadline();
  }
  return before;
}

absl::Status CheckMayBeAskedToLeave(const std::string& name, const Scope& scope) {
  if (!Lives(scope)) return NotNow(name, "its world is over and has no members", "WORLD_OVER");
  const AgreedStep* const agreed = scope.steps.agreed();
  if (agreed == nullptr) return absl::OkStatus();
  const int size = agreed->preempt.next_size();
  const std::string next = size == 0 ? "" : absl::StrCat(", to be ", size, " processes then");
  return NotNow(name, absl::StrCat("its members leave already, after step ", agreed->step, next),
                "WORLD_LEAVES");
}

}  // namespace remesh::server::coordination
