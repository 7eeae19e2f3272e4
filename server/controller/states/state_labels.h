// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "remesh/v1/state.pb.h"

namespace remesh::server {

using Labels = google::protobuf::Map<std::string, std::string>;

// INVALID_ARGUMENT names the field, below `path` ("state." or ""): a step below 0, more than 64
// labels, an empty key, a key or a value of more than 1024 bytes, a request_id of more than 256.
absl::Status CheckStep(std::string_view path, int64_t step);
absl::Status CheckLabels(std::string_view path, const Labels& labels);
absl::Status CheckRequestId(const std::string& request_id);

}  // namespace remesh::server
