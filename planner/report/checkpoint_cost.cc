// SPDX-License-Identifier: Apache-2.0
#include "planner/report/checkpoint_cost.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/network/network.h"

namespace remesh::planner {
namespace {

// A placement of arrays with one element width.
using Key = std::tuple<const Layout*, const DeviceList*, int>;

// Adds up the bytes of hosts over placements. There are no more of them than planning has pairs of
// layouts.
class HostBytes {
 public:
  HostBytes(const Network& network, bool shared)
      : network_(network), shared_(shared), bytes_(network.host_count(), 0) {}

  void Add(const Key& key, int64_t arrays) {
    const auto& [layout, devices, element_bits] = key;
    for (size_t t = 0; t < layout->tiles.size(); ++t) {
      std::vector<int32_t> hosts;
      for (const int32_t position : layout->PositionsOf(t)) {
        const int64_t device = (*devices)[position];
        if (!network_.lost[device]) hosts.push_back(network_.host_of[device]);
      }
      std::sort(hosts.begin(), hosts.end());
      hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
      double bits = 0;
      for (const Box& box : layout->tiles[t].boxes)
        bits += static_cast<double>(box.element_count());
      bits *= static_cast<double>(element_bits) * static_cast<double>(arrays);
      const double ways = shared_ ? static_cast<double>(hosts.size()) : 1;
      for (const int32_t host : hosts) bytes_[host] += bits / 8 / ways;
    }
  }

  double max() const { return *std::max_element(bytes_.begin(), bytes_.end()); }
  double sum() const {
    double sum = 0;
    for (const double one : bytes_) sum += one;
    return sum;
  }

 private:
  const Network& network_;
  const bool shared_;
  std::vector<double> bytes_;
};

HostBytes BytesOf(const CanonicalRequest& request, const Network& network,
                  Placement ArraySpec::*side, bool shared) {
  absl::flat_hash_map<Key, int64_t> counts;
  std::vector<Key> order;  // sums must not depend on the order of a hash map
  for (const ArraySpec& array : request.request.arrays) {
    const Placement& placement = array.*side;
    const Key key{placement.layout.get(), placement.devices.get(), BitWidth(array.element_type)};
    if (counts[key]++ == 0) order.push_back(key);
  }
  HostBytes bytes(network, shared);
  for (const Key& key : order) bytes.Add(key, counts[key]);
  return bytes;
}

}  // namespace

CheckpointCost CostOfCheckpoint(const CanonicalRequest& request, double bytes_per_second) {
  const Network network = MakeNetwork(request.request);
  const HostBytes written = BytesOf(request, network, &ArraySpec::source, true);
  const HostBytes read = BytesOf(request, network, &ArraySpec::target, false);
  return {.written_bytes = std::llround(written.sum()),
          .read_bytes = std::llround(read.sum()),
          .bottleneck_bytes = std::llround(written.max() + read.max()),
          .seconds = (written.max() + read.max()) / bytes_per_second};
}

}  // namespace remesh::planner
