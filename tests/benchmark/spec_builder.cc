// SPDX-License-Identifier: Apache-2.0
#include "tests/benchmark/spec_builder.h"

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace remesh::testing {
namespace {

int64_t Product(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

v1::Sharding HloTiles(const std::vector<int64_t>& mesh, const std::vector<std::vector<int>>& axes) {
  std::vector<int64_t> tiles;
  std::vector<int> order;
  std::vector<bool> used(mesh.size(), false);
  for (const std::vector<int>& of_dim : axes) {
    tiles.push_back(1);
    for (int axis : of_dim) {
      tiles.back() *= mesh[axis];
      order.push_back(axis);
      used[axis] = true;
    }
  }
  const int64_t replicas = Product(mesh) / Product(tiles);
  for (size_t m = 0; m < mesh.size(); ++m) {
    if (!used[m]) order.push_back(static_cast<int>(m));
  }
  v1::Sharding sharding;
  if (Product(tiles) == 1) {
    sharding.set_hlo_text("{replicated}");
    return sharding;
  }
  if (replicas > 1) tiles.push_back(replicas);
  std::string text =
      absl::StrCat("{devices=[", absl::StrJoin(tiles, ","), "]<=[", absl::StrJoin(mesh, ","), "]");
  if (mesh.size() > 1) {
    absl::StrAppend(&text, "T(", absl::StrJoin(order, ","), ")");
  }
  absl::StrAppend(&text, replicas > 1 ? " last_tile_dim_replicate}" : "}");
  sharding.set_hlo_text(text);
  return sharding;
}

v1::Sharding ShardyMesh(const std::vector<std::pair<std::string, int64_t>>& mesh,
                        const std::vector<std::vector<int>>& axes) {
  const auto quoted = [](const std::string& name) { return absl::StrCat("\"", name, "\""); };
  std::vector<std::string> sizes;
  for (const auto& [name, size] : mesh) sizes.push_back(absl::StrCat(quoted(name), "=", size));
  std::vector<std::string> dims;
  for (const std::vector<int>& of_dim : axes) {
    std::vector<std::string> names;
    for (int axis : of_dim) names.push_back(quoted(mesh[axis].first));
    dims.push_back(absl::StrCat("{", absl::StrJoin(names, ", "), "}"));
  }
  v1::Sharding sharding;
  sharding.set_sdy_text(absl::StrCat("#sdy.sharding<mesh<[", absl::StrJoin(sizes, ", "), "]>, [",
                                     absl::StrJoin(dims, ", "), "]>"));
  return sharding;
}

v1::Sharding DTensor(const std::vector<int64_t>& mesh, const std::vector<int>& dims) {
  v1::Sharding sharding;
  v1::DTensorSharding& dtensor = *sharding.mutable_dtensor();
  for (size_t m = 0; m < mesh.size(); ++m) {
    dtensor.add_mesh_shape(mesh[m]);
    v1::Placement& placement = *dtensor.add_placements();
    if (dims[m] == kReplicated) {
      placement.mutable_replicate();
    } else {
      placement.mutable_shard()->set_dim(dims[m]);
    }
  }
  return sharding;
}

void SpecBuilder::AddHosts(int64_t hosts, const HostKind& kind, int64_t first_id) {
  for (int64_t h = 0; h < hosts; ++h) {
    v1::Host& host = *spec_.mutable_topology()->add_hosts();
    host.set_name(absl::StrCat("host", first_id, "-", h));
    host.set_nic_bytes_per_second(kind.nic_bytes_per_second);
    host.set_nics(kind.nics);
    host.set_fabric_bytes_per_second(kind.fabric_bytes_per_second);
    for (int64_t i = 0; i < kind.devices; ++i) {
      host.add_device_ids(first_id + h * kind.devices + i);
    }
  }
}

std::string SpecBuilder::Sharding(v1::Sharding form, int64_t first, int64_t count) {
  const std::string list = absl::StrCat(first, "+", count);
  v1::DeviceList::Range& range = *(*spec_.mutable_device_lists())[list].mutable_range();
  range.set_start(first);
  range.set_count(count);
  form.mutable_devices()->set_ref(list);
  std::string& key = key_of_[form.SerializeAsString()];
  if (key.empty()) {
    key = absl::StrCat("s", key_of_.size());
    (*spec_.mutable_shardings())[key] = std::move(form);
  }
  return key;
}

void SpecBuilder::Add(const std::string& name, const std::vector<int64_t>& shape,
                      const std::string& element_type, const std::string& source,
                      const std::string& target) {
  v1::ArraySpec& array = *spec_.add_arrays();
  array.set_name(name);
  array.mutable_shape()->Add(shape.begin(), shape.end());
  array.set_element_type(element_type);
  array.mutable_source()->set_ref(source);
  array.mutable_target()->set_ref(target);
}

}  // namespace remesh::testing
