// SPDX-License-Identifier: Apache-2.0
#include "planner/schedule/shares.h"

#include <algorithm>

namespace remesh::planner {

Shares::Shares(const std::vector<PairWork>& pairs, const Links& links)
    : links_(links), whole_(links.count(), 0) {
  for (const PairWork& pair : pairs) {
    if (pair.from == pair.to) continue;
    whole_[links.Sender(pair.from, pair.to)] += pair.bits;
    whole_[links.Receiver(pair.from, pair.to)] += pair.bits;
  }
  Rational busiest;
  for (int32_t i = 0; i < links.count(); ++i) {
    busiest = std::max(busiest, Rational{whole_[i], links.all()[i].bytes_per_second});
  }
  for (int32_t i = 0; i < links.count(); ++i) {
    whole_[i] = std::max<int64_t>(1, busiest.CeilTimes(links.all()[i].bytes_per_second));
  }
}

}  // namespace remesh::planner
