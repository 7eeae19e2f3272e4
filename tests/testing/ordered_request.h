// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "planner/plan/plan.h"
#include "planner/values/request.h"

namespace remesh::testing {

// What `plan` answers: the request with its target lists in the order that the plan has chosen.
inline planner::ReshardRequest OrderedRequest(planner::ReshardRequest request,
                                              const planner::Plan& plan) {
  request.options.free_target_order = false;
  if (plan.target_order().empty()) return request;
  for (planner::ArraySpec& array : request.arrays) {
    planner::DeviceList devices = *array.target.devices;
    for (int64_t& id : devices) id = plan.target_order()[id];
    array.target.devices = std::make_shared<const planner::DeviceList>(std::move(devices));
  }
  return request;
}

}  // namespace remesh::testing
