// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/values/request.h"

namespace remesh::planner {

// Dense numbers for the devices of a topology, so that data about devices can be kept in vectors.
class DeviceTable {
 public:
  explicit DeviceTable(const Topology& topology) {
    size_t count = 0;
    for (const Host& host : topology.hosts) count += host.device_ids.size();
    number_of_.reserve(count);
    for (const Host& host : topology.hosts) {
      for (int64_t id : host.device_ids) {
        number_of_.try_emplace(id, static_cast<int32_t>(number_of_.size()));
      }
    }
  }

  size_t size() const { return number_of_.size(); }
  int32_t NumberOf(int64_t id) const { return number_of_.at(id); }
  // The numbers of all devices of a list. The reference stays valid for the life of the table.
  const std::vector<int32_t>& NumbersOf(const DeviceList& list) {
    std::vector<int32_t>& numbers = of_list_[&list];
    if (!numbers.empty()) return numbers;
    numbers.reserve(list.size());
    for (int64_t id : list) numbers.push_back(NumberOf(id));
    return numbers;
  }

 private:
  absl::flat_hash_map<int64_t, int32_t> number_of_;
  std::map<const DeviceList*, std::vector<int32_t>> of_list_;
};

}  // namespace remesh::planner
