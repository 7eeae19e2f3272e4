// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "remesh/v1/plan.pb.h"

namespace remesh::testing {

// Hosts all alike. The NICs are per host.
struct HostKind {
  int64_t devices = 8;
  int32_t nics = 8;
  double nic_bytes_per_second = 50e9;      // 400 Gbit/s
  double fabric_bytes_per_second = 450e9;  // NVLink 4
};

// A mesh axis with no dimension to cut.
inline constexpr int kReplicated = -1;

// Forms of one sharding over a mesh that is row-major over its device list. axes[d]: the mesh axes
// that cut dimension d, major first.
v1::Sharding HloTiles(const std::vector<int64_t>& mesh, const std::vector<std::vector<int>>& axes);
v1::Sharding ShardyMesh(const std::vector<std::pair<std::string, int64_t>>& mesh,
                        const std::vector<std::vector<int>>& axes);
// dims[m]: the dimension that mesh axis m cuts, or kReplicated.
v1::Sharding DTensor(const std::vector<int64_t>& mesh, const std::vector<int>& dims);

// Writes a PlanSpec as a controller would: every sharding and device list once, arrays by
// reference.
class SpecBuilder {
 public:
  // Devices are numbered from `first_id` on, host by host.
  void AddHosts(int64_t hosts, const HostKind& kind, int64_t first_id = 0);

  // The key of the sharding `form` over the devices first .. first + count - 1.
  std::string Sharding(v1::Sharding form, int64_t first, int64_t count);

  void Add(const std::string& name, const std::vector<int64_t>& shape,
           const std::string& element_type, const std::string& source, const std::string& target);

  v1::PlanSpec& spec() { return spec_; }
  v1::PlanSpec Take() && { return std::move(spec_); }

 private:
  v1::PlanSpec spec_;
  std::map<std::string, std::string> key_of_;  // by the sharding's bytes
};

}  // namespace remesh::testing
