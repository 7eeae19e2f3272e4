// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/text/resource_names.h"

namespace remesh::server {

// Parsers of the names that only the server reads, beside those of base/text/resource_names.h.
// Errors are INVALID_ARGUMENT and name `field`.

// jobs/{job}/executions/{id}. Returns the job.
absl::StatusOr<std::string> ParseExecutionName(std::string_view field, std::string_view name);

// workers/{host}. Returns the host.
absl::StatusOr<std::string> ParseWorkerName(std::string_view field, std::string_view name);

// "jobs/{job}", or "" or "jobs/-" for all jobs. Returns the prefix of the names of the parent's
// children: "jobs/{job}/" or "".
absl::StatusOr<std::string> ParseParent(std::string_view field, std::string_view parent);

}  // namespace remesh::server
