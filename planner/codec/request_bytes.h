// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "planner/canonical/canonical.h"
#include "planner/values/budget.h"
#include "planner/values/byte_archive.h"

namespace remesh::planner {

// Writes and reads the fields of a canonical request, each layout and device list once. Reading
// fails (DATA_LOSS) unless Canonicalize() could have made the request: layouts are built again from
// their parts or boxes, and ValidateRequest() must pass. Also fails once the budget is spent.
void WriteRequest(const CanonicalRequest& canonical, ByteWriter& writer);
absl::Status ReadRequest(ByteReader& reader, CanonicalRequest& canonical, Budget& budget);

}  // namespace remesh::planner
