// SPDX-License-Identifier: Apache-2.0
#include "server/controller/values/names.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {

absl::StatusOr<std::string> ParseExecutionName(std::string_view field, std::string_view name) {
  const std::string_view job = JobOfChild(name, "executions");
  if (!job.empty()) return std::string(job);
  return InvalidField(
      field, name,
      "must be jobs/{job}/executions/{id}, where {job} and {id} are 1 to 63 characters "
      "of [A-Za-z0-9._-]");
}

absl::StatusOr<std::string> ParseWorkerName(std::string_view field, std::string_view name) {
  std::string_view host = name;
  if (TakeSegment(host) == "workers" && IsHostName(host)) return std::string(host);
  return InvalidField(field, name, "must be workers/{host}");
}

absl::StatusOr<std::string> ParseParent(std::string_view field, std::string_view parent) {
  if (parent.empty() || parent == "jobs/-") return std::string();
  std::string_view job = parent;
  if (TakeSegment(job) == "jobs" && IsSegment(job)) {
    return absl::StrCat("jobs/", std::string(job), "/");
  }
  const std::string meant =
      IsSegment(parent) ? absl::StrCat("; did you mean jobs/", std::string(parent), "?") : "";
  return InvalidField(field, parent, absl::StrCat("must be jobs/{job}, jobs/- or empty", meant));
}

}  // namespace remesh::server
