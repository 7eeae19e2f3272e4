// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::server {

// Parsers of resource names. A segment has 1 to 63 characters of [A-Za-z0-9._-] and begins with a
// letter or digit. Errors are INVALID_ARGUMENT and name `field`.

// jobs/{job}/states/{state}. Returns the job.
absl::StatusOr<std::string> ParseStateName(std::string_view field, std::string_view name);

// jobs/{job}/executions/{id}. Returns the job.
absl::StatusOr<std::string> ParseExecutionName(std::string_view field, std::string_view name);

// workers/{host}. Returns the host; hosts may have up to 253 characters.
absl::StatusOr<std::string> ParseWorkerName(std::string_view field, std::string_view name);

// "jobs/{job}", or "" or "jobs/-" for all jobs. Returns the prefix of the names of the parent's
// children: "jobs/{job}/" or "".
absl::StatusOr<std::string> ParseParent(std::string_view field, std::string_view parent);

// Whether `host` may be the name of a worker.
bool IsHostName(std::string_view host);

}  // namespace remesh::server
