// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planner/request.h"

namespace remesh {

// The order of target devices that keeps most bytes where they are: for `request`, whose arrays all
// have the same target list, which of its devices stands at which position of the target layouts.
// An assignment of positions to devices by the bytes that stay in place; positions that nobody
// holds anything of take the devices left over, in rising order. The list as it is when the arrays
// are cut into too many cells.
DeviceList ChooseTargetOrder(const ReshardRequest& request);

}  // namespace remesh
