// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/shares.h"

#include <algorithm>

#include "planner/values/rational.h"

namespace remesh {

Shares::Shares(const std::vector<PairWork>& pairs, const Network& network) : network_(network) {
  std::vector<int64_t> capacity;
  for (const Network::Nic& nic : network.nics) {
    capacity.push_back(network.hosts[nic.host].nic_capacity);
  }
  for (const int32_t host : network.host_of) {
    capacity.push_back(network.hosts[host].fabric_capacity);
  }
  whole_.assign(2 * capacity.size(), 0);
  for (const PairWork& pair : pairs) {
    if (pair.from == pair.to) continue;
    whole_[Sender(pair.from, pair.to)] += pair.bits;
    whole_[Receiver(pair.from, pair.to)] += pair.bits;
  }
  Rational busiest;
  for (size_t i = 0; i < whole_.size(); ++i) {
    busiest = std::max(busiest, Rational{whole_[i], capacity[i % capacity.size()]});
  }
  for (size_t i = 0; i < whole_.size(); ++i) {
    whole_[i] = std::max<int64_t>(1, busiest.CeilTimes(capacity[i % capacity.size()]));
  }
}

}  // namespace remesh
