// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "remesh/v1/worker.pb.h"

namespace remesh::server {

// Cuts an AssignState or Prepare with many arrays and shards into AssignmentParts and a rest, in
// the order to be sent, none much above `max_bytes`. Other and small messages come back alone.
std::vector<v1::AttachResponse> CutAssignment(v1::AttachResponse message,
                                              size_t max_bytes = size_t{1} << 20);

}  // namespace remesh::server
