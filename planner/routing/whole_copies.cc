// SPDX-License-Identifier: Apache-2.0
#include "planner/routing/whole_copies.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/types/span.h"
#include "planner/values/resize.h"
#include "planner/values/stable_order.h"

namespace remesh::planner {
namespace {

// With up to this many copies, looking for the host with most room takes less time than a queue.
constexpr int64_t kFewCopies = 4;

// Deals up to `copies` copies of `bits` bits to `hosts`, always to the one with most room; `sent`
// is of their first. Returns the number dealt.
int64_t DealTo(absl::Span<const int32_t> hosts, int64_t bits, int64_t copies,
               std::vector<int64_t>& room, int64_t* sent) {
  if (copies <= kFewCopies) {
    for (int64_t dealt = 0; dealt < copies; ++dealt) {
      const auto most = std::max_element(hosts.begin(), hosts.end(),
                                         [&](int32_t a, int32_t b) { return room[a] < room[b]; });
      if (room[*most] < bits) return dealt;
      room[*most] -= bits;
      sent[most - hosts.begin()] += bits;
    }
    return std::max<int64_t>(copies, 0);
  }
  std::priority_queue<std::pair<int64_t, int64_t>> most_room;  // room, -index
  for (size_t k = 0; k < hosts.size(); ++k) {
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
  std::vector<int32_t> order = InOrder(demand.classes.size());
  StableSort(
      order, [&](int32_t a, int32_t b) { return demand.classes[a].bits > demand.classes[b].bits; },
      budget);
  std::vector<Served> sent;
  Resize(sent, demand.classes.size(), budget);
  // Deals the root of every class before further copies of any.
  for (bool root : {true, false}) {
    for (const int32_t a : order) {
      if (budget.Spent()) return sent;
      const DemandClass& one = demand.classes[a];
      const size_t holders = one.holders.size();
      sent[a].resize(holders + one.needers.size(), 0);
      if (root) {
        DealTo(one.holders, one.bits, 1, room, sent[a].data());
        continue;
      }
      int64_t left = static_cast<int64_t>(one.needers.size()) - 1;  // but for the root
      left -= DealTo(one.holders, one.bits, left, room, sent[a].data());
      DealTo(one.needers, one.bits, left, room, sent[a].data() + holders);
    }
  }
  return sent;
}

}  // namespace remesh::planner
