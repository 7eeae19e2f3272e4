// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "remesh/v1/plan.pb.h"

namespace remesh::client {

// Plans as files: proto/convert/exported_plan.h.

// Downloads the whole file of a plan that the server keeps.
absl::StatusOr<std::string> DownloadPlan(const Endpoint& server, const std::string& name);

// Writes a file. FILE_NOT_WRITTEN: NOT_FOUND without the folder, UNAVAILABLE otherwise.
absl::Status WriteBytes(const std::string& path, const std::string& bytes);

// Imports the file at `path`, bound to `spec` unless that is null.
absl::StatusOr<v1::Plan> UploadPlan(const Endpoint& server, const std::string& path,
                                    const v1::PlanSpec* spec);

}  // namespace remesh::client
