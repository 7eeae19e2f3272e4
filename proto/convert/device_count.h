// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "remesh/v1/plan.pb.h"

namespace remesh::proto {

// One more than the highest device id that `spec` names outside its topology, 0 when it names none:
// how many devices a cluster needs that is numbered from 0 on. What is no id counts as none.
int64_t DeviceCountOf(const v1::PlanSpec& spec);

}  // namespace remesh::proto
