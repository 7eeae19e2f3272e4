// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// One more than the highest device id that `spec` names outside its topology, 0 when it names none:
// the number of devices that a cluster numbered from 0 on must have. Ignores ids that are not
// valid.
int64_t DeviceCountOf(const v1::PlanSpec& spec);

}  // namespace remesh::proto
