// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "remesh/v1/plan.pb.h"

namespace remesh::server {

inline constexpr int64_t kPlenty = 1 << 30;  // bytes, of a cache that never fills

// A reshard of one array f32[8, 8] from rows to columns, over four devices on two hosts.
inline v1::PlanSpec TestSpec(const std::vector<int64_t>& ids = {0, 1, 2, 3},
                             const std::string& host_prefix = "host-") {
  v1::PlanSpec spec;
  for (int h = 0; h < 2; ++h) {
    v1::Host& host = *spec.mutable_topology()->add_hosts();
    host.set_name(host_prefix + std::to_string(h));
    host.add_device_ids(ids[2 * h]);
    host.add_device_ids(ids[2 * h + 1]);
    host.set_nics(1);
    host.set_nic_bytes_per_second(1e9);
    host.set_fabric_bytes_per_second(1e11);
  }
  for (const int64_t id : ids) (*spec.mutable_device_lists())["all"].add_ids(id);
  for (const auto& [name, text] :
       {std::pair{"rows", "{devices=[4,1]<=[4]}"}, std::pair{"columns", "{devices=[1,4]<=[4]}"}}) {
    v1::Sharding& sharding = (*spec.mutable_shardings())[name];
    sharding.set_hlo_text(text);
    sharding.mutable_devices()->set_ref("all");
  }
  v1::ArraySpec& array = *spec.add_arrays();
  array.set_name("w");
  array.add_shape(8);
  array.add_shape(8);
  array.set_element_type("f32");
  array.mutable_source()->set_ref("rows");
  array.mutable_target()->set_ref("columns");
  return spec;
}

}  // namespace remesh::server
