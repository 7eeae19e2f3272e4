// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/direct_dealing.h"

#include <utility>

#include "planner/values/rational.h"
#include "planner/values/resize.h"

namespace remesh::planner {
namespace {

// Deals `bits` bits to the first `count` of `hosts` in equal shares. False where one has no room.
bool DealTo(const Group& hosts, int64_t count, int64_t bits, std::vector<int64_t>& room,
            Served& sent) {
  for (int64_t k = 0; k < count; ++k) {
    const int64_t share = MulDiv(bits, k + 1, count) - MulDiv(bits, k, count);
    int64_t& left = room[hosts[k]];
    if (share > left) return false;
    left -= share;
    sent[k] += share;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Served>> DealDirectly(const DemandClasses& demand,
                                                const std::vector<bool>& even,
                                                std::vector<int64_t> room, Budget& budget) {
  std::vector<Served> sent;
  Resize(sent, demand.classes.size(), budget);
  // The order of the search: roots before copies, and of either what is shared evenly first.
  for (const bool root : {true, false}) {
    for (const bool evenly : {true, false}) {
      for (size_t a = 0; a < demand.classes.size(); ++a) {
        if (budget.Spent()) return std::nullopt;
        if (even[a] != evenly) continue;
        const DemandClass& one = demand.classes[a];
        sent[a].resize(one.holders.size() + one.needers.size(), 0);
        const int64_t copies = root ? 1 : static_cast<int64_t>(one.needers.size()) - 1;
        const int64_t count = evenly ? static_cast<int64_t>(one.holders.size()) : 1;
        if (!DealTo(one.holders, count, one.bits * copies, room, sent[a])) return std::nullopt;
      }
    }
  }
  return sent;
}

}  // namespace remesh::planner
