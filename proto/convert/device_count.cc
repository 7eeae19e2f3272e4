// SPDX-License-Identifier: Apache-2.0
#include "proto/convert/device_count.h"

#include <algorithm>
#include <limits>

namespace remesh::proto {
namespace {

constexpr int64_t kIdMax = std::numeric_limits<int64_t>::max() - 1;

class Counter {
 public:
  void Add(int64_t id) { count_ = std::max(count_, std::clamp<int64_t>(id, -1, kIdMax) + 1); }

  void Add(const v1::DeviceList& list) {
    for (const int64_t id : list.ids()) Add(id);
    const auto& [start, count] = std::pair(list.range().start(), list.range().count());
    if (start >= 0 && count > 0 && count <= kIdMax - start) Add(start + count - 1);
  }

  void Add(const v1::Sharding& sharding) {
    Add(sharding.devices());
    for (const v1::DeviceBoxes& device : sharding.boxes().devices()) Add(device.device());
  }

  int64_t count() const { return count_; }

 private:
  int64_t count_ = 0;
};

}  // namespace

int64_t DeviceCountOf(const v1::PlanSpec& spec) {
  Counter counter;
  for (const auto& [name, list] : spec.device_lists()) counter.Add(list);
  for (const auto& [name, sharding] : spec.shardings()) counter.Add(sharding);
  for (const v1::ArraySpec& array : spec.arrays()) {
    counter.Add(array.source());
    counter.Add(array.target());
  }
  for (const int64_t id : spec.options().lost_device_ids()) counter.Add(id);
  return counter.count();
}

}  // namespace remesh::proto
