// SPDX-License-Identifier: Apache-2.0
#include "server/questions/target_order.h"

#include <algorithm>
#include <vector>

namespace remesh::server {
namespace {

int64_t TakerOf(int64_t device, const TargetOrder& order) {
  const auto taker = order.find(device);
  return taker == order.end() ? device : taker->second;
}

void Reorder(const TargetOrder& order, v1::DeviceList& list) {
  std::vector<int64_t> ids(list.ids().begin(), list.ids().end());
  for (int64_t i = 0; i < list.range().count(); ++i) ids.push_back(list.range().start() + i);
  const auto moves = [&](int64_t id) { return TakerOf(id, order) != id; };
  if (std::none_of(ids.begin(), ids.end(), moves)) return;  // keeps a list that is a range
  list.clear_range();
  list.clear_ids();
  for (const int64_t id : ids) list.add_ids(TakerOf(id, order));
}

void Reorder(const TargetOrder& order, v1::Sharding& sharding) {
  if (sharding.has_devices()) Reorder(order, *sharding.mutable_devices());
  if (!sharding.has_boxes()) return;
  for (v1::DeviceBoxes& boxes : *sharding.mutable_boxes()->mutable_devices()) {
    boxes.set_device(TakerOf(boxes.device(), order));
  }
}

}  // namespace

TargetOrder ChosenOrder(const planner::Plan& plan, const planner::Binding& binding) {
  TargetOrder order;
  for (size_t d = 0; d < plan.target_order().size(); ++d) {
    order[binding.device_ids[d]] = binding.device_ids[plan.target_order()[d]];
  }
  return order;
}

v1::StateSpec WithOrder(v1::StateSpec spec, const TargetOrder& order) {
  for (auto& [key, list] : *spec.mutable_device_lists()) Reorder(order, list);
  for (auto& [key, sharding] : *spec.mutable_shardings()) Reorder(order, sharding);
  for (v1::StateArray& array : *spec.mutable_arrays()) Reorder(order, *array.mutable_sharding());
  return spec;
}

}  // namespace remesh::server
