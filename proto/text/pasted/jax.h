// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "planner/sharding/text_scanner.h"
#include "proto/text/pasted/pasted.h"

namespace remesh::proto {

// What JAX prints, from its first word to the end of the text.

// NamedSharding(mesh=Mesh('x': 4), spec=PartitionSpec('x', None), memory_kind=device).
absl::StatusOr<PastedSharding> ReadNamedSharding(planner::TextScanner scanner);

// GSPMDSharding({devices=[2,1]<=[2]}, memory_kind=device). `text` is all of the scanner's.
absl::StatusOr<PastedSharding> ReadGspmdSharding(planner::TextScanner scanner,
                                                 std::string_view text);

// SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device).
absl::StatusOr<PastedSharding> ReadSingleDevice(planner::TextScanner scanner);

}  // namespace remesh::proto
