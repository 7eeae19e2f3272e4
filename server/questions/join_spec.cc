// SPDX-License-Identifier: Apache-2.0
#include "server/questions/join_spec.h"

#include <string>

#include "base/check.h"

namespace remesh::server {
namespace {

v1::DeviceList Prefixed(v1::DeviceList list, const std::string& prefix) {
  if (list.has_ref()) list.set_ref(prefix + list.ref());
  return list;
}

v1::Sharding Prefixed(v1::Sharding sharding, const std::string& prefix) {
  if (sharding.has_ref()) sharding.set_ref(prefix + sharding.ref());
  if (sharding.has_devices()) *sharding.mutable_devices() = Prefixed(sharding.devices(), prefix);
  return sharding;
}

void AddNamed(const v1::StateSpec& half, const std::string& prefix, v1::PlanSpec& spec) {
  for (const auto& [key, list] : half.device_lists()) {
    (*spec.mutable_device_lists())[prefix + key] = Prefixed(list, prefix);
  }
  for (const auto& [key, sharding] : half.shardings()) {
    (*spec.mutable_shardings())[prefix + key] = Prefixed(sharding, prefix);
  }
}

v1::StateSpec HalfOf(const v1::PlanSpec& spec, bool source) {
  v1::StateSpec half;
  *half.mutable_topology() = spec.topology();
  *half.mutable_shardings() = spec.shardings();
  *half.mutable_device_lists() = spec.device_lists();
  for (const v1::ArraySpec& array : spec.arrays()) {
    v1::StateArray& placed = *half.add_arrays();
    placed.set_name(array.name());
    *placed.mutable_shape() = array.shape();
    placed.set_element_type(array.element_type());
    *placed.mutable_sharding() = source ? array.source() : array.target();
  }
  return half;
}

}  // namespace

v1::PlanSpec JoinSpecs(const v1::StateSpec& source, const v1::StateSpec& target,
                       const v1::PlanOptions& options) {
  REMESH_CHECK(source.arrays_size() == target.arrays_size());
  v1::PlanSpec spec;
  *spec.mutable_topology() = target.topology();
  spec.mutable_topology()->clear_from_workers();  // of states: plans are the same without it
  *spec.mutable_options() = options;
  AddNamed(source, "source.", spec);
  AddNamed(target, "target.", spec);
  for (int i = 0; i < source.arrays_size(); ++i) {
    v1::ArraySpec& array = *spec.add_arrays();
    array.set_name(source.arrays(i).name());
    *array.mutable_shape() = source.arrays(i).shape();
    array.set_element_type(source.arrays(i).element_type());
    *array.mutable_source() = Prefixed(source.arrays(i).sharding(), "source.");
    *array.mutable_target() = Prefixed(target.arrays(i).sharding(), "target.");
  }
  return spec;
}

v1::StateSpec SourceOf(const v1::PlanSpec& spec) { return HalfOf(spec, true); }
v1::StateSpec TargetOf(const v1::PlanSpec& spec) { return HalfOf(spec, false); }

}  // namespace remesh::server
