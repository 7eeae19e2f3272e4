// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/fence.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/resource_names.h"

namespace remesh::server {

absl::Status NoWorlds(const std::string& scope, int64_t epoch) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("epoch ", epoch, " of ", scope, " is not known"),
                   {.reason = "STALE_EPOCH", .metadata = {{"scope", scope}, {"epoch", "0"}}});
}

absl::Status CheckFence(const v1::Fence& fence, const std::string& state,
                        const FenceCheck& is_present) {
  RETURN_IF_ERROR(ParseStateName("name", state).status());
  const std::string_view scope_job = JobOfChild(fence.scope(), "worlds");
  if (scope_job.empty()) {
    return InvalidField("fence.scope", fence.scope(),
                        "must be jobs/{job}/worlds/{world}, where {job} and {world} are 1 to 63 "
                        "characters of [A-Za-z0-9._-]");
  }
  const std::string_view job = JobOfChild(state, "states");
  if (scope_job != job) {
    return InvalidField("fence.scope", fence.scope(),
                        absl::StrCat("must be of jobs/", std::string(job), ", the job of ", state));
  }
  return is_present(fence.scope(), fence.epoch());
}

}  // namespace remesh::server
