// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// The most that arrays and shards of a message take, roughly.
inline constexpr size_t kAssignmentBytesMax = size_t{1} << 20;

// Cuts an AssignState or Prepare with many arrays and shards into AssignmentParts and a remainder,
// in the order to send them, none much larger than `max_bytes`. Returns any other message, and a
// small one, as it is.
std::vector<v1::AttachResponse> CutAssignment(v1::AttachResponse message,
                                              size_t max_bytes = kAssignmentBytesMax);

}  // namespace remesh::server
