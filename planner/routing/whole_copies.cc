// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/whole_copies.h"

#include <numeric>
#include <queue>
#include <utility>

#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// Deals up to `copies` copies of `bits` bits to hosts [begin, end) of `hosts`, always to the one
// with most room. Returns the number dealt.
int64_t DealTo(const Group& hosts, size_t begin, size_t end, int64_t bits, int64_t copies,
               std::vector<int64_t>& room, Served& sent) {
  std::priority_queue<std::pair<int64_t, int64_t>> most_room;  // room, -index
  for (size_t k = begin; k < end; ++k) {
    if (room[hosts[k]] >= bits) most_room.emplace(room[hosts[k]], -static_cast<int64_t>(k));
  }
  int64_t dealt = 0;
  while (dealt < copies && !most_room.empty()) {
    const size_t k = static_cast<size_t>(-most_room.top().second);
    most_room.pop();
    room[hosts[k]] -= bits;
    sent[k] += bits;
    ++dealt;
    if (room[hosts[k]] >= bits) most_room.emplace(room[hosts[k]], -static_cast<int64_t>(k));
  }
  return dealt;
}

}  // namespace

std::vector<Served> DealWholeCopies(const DemandClasses& demand, std::vector<int64_t>& room,
                                    Budget& budget) {
  std::vector<size_t> order(demand.classes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  StableSort(
      order, [&](size_t a, size_t b) { return demand.classes[a].bits > demand.classes[b].bits; },
      budget);
  std::vector<Served> sent;
  Resize(sent, demand.classes.size(), budget);
  // Deals the root of every class before further copies of any.
  for (bool root : {true, false}) {
    for (size_t a : order) {
      if (budget.Spent()) return sent;
      const DemandClass& one = demand.classes[a];
      Group hosts = one.holders;
      hosts.insert(hosts.end(), one.needers.begin(), one.needers.end());
      sent[a].resize(hosts.size(), 0);
      int64_t left = static_cast<int64_t>(one.needers.size());
      if (root) {
        DealTo(hosts, 0, one.holders.size(), one.bits, 1, room, sent[a]);
        continue;
      }
      left -= 1;  // the root: dealt, or left over
      left -= DealTo(hosts, 0, one.holders.size(), one.bits, left, room, sent[a]);
      DealTo(hosts, one.holders.size(), hosts.size(), one.bits, left, room, sent[a]);
    }
  }
  return sent;
}

}  // namespace remesh::planner
