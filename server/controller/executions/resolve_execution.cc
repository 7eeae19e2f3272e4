// SPDX-License-Identifier: Apache-2.0
#include "server/controller/executions/resolve_execution.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {

absl::Status CheckResolve(const v1::ResolveExecutionRequest& request, const ExecutionEntry& entry,
                          const StateRegistry& states, const WorkerRegistry& workers) {
  const v1::Execution& resource = entry.execution.resource();
  if (request.resolution() != v1::ResolveExecutionRequest::KEEP_SOURCE) {
    return InvalidField("resolution", absl::StrCat(request.resolution()), "must be KEEP_SOURCE");
  }
  const auto refuse = [&](const char* reason, std::string_view what) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(resource.name(), std::string(what)),
                     {.reason = reason, .metadata = {{"execution", resource.name()}}});
  };
  if (entry.execution.step() != Execution::Step::kCommitting) {
    return refuse("NOT_COMMITTING", " is not committing");
  }
  const int64_t source = resource.source_generation();
  if (HeldEverywhere(*states.Find(resource.state()), source, workers)) return absl::OkStatus();
  return refuse("SOURCE_NOT_WHOLE", absl::StrCat(": not every host of generation ", source,
                                                 " is attached with its shards of it"));
}

absl::Status SourceIsKept() {
  return MakeError(absl::StatusCode::kAborted, "resolved: the source generation is kept",
                   {.reason = "RESOLVED_KEEP_SOURCE", .metadata = {}});
}

}  // namespace remesh::server
