// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/host_exchanges.h"

#include <algorithm>
#include <utility>

#include "planner/plan/plan_rep.h"

namespace remesh::planner {
namespace {

constexpr size_t kUnsortedMin = 64;

// A set of indices. It is sorted whenever it has doubled, so that repeated ones take no memory.
class IndexSet {
 public:
  void Add(int32_t index) {
    if (!indices_.empty() && indices_.back() == index) return;
    indices_.push_back(index);
    if (indices_.size() >= sort_at_) Sort();
  }
  std::vector<int32_t> Take() {
    Sort();
    indices_.shrink_to_fit();
    return std::move(indices_);
  }

 private:
  void Sort() {
    std::sort(indices_.begin(), indices_.end());
    indices_.erase(std::unique(indices_.begin(), indices_.end()), indices_.end());
    sort_at_ = std::max(2 * indices_.size(), kUnsortedMin);
  }

  std::vector<int32_t> indices_;
  size_t sort_at_ = kUnsortedMin;
};

}  // namespace

std::vector<std::vector<int32_t>> HostExchanges(const Plan& plan) {
  const PlanRep& rep = plan.rep();
  const auto last = std::max_element(rep.host_of.begin(), rep.host_of.end());
  std::vector<IndexSet> sets(last == rep.host_of.end() ? 0 : *last + 1);
  for (const PackedMove& move : rep.moves) {
    const int32_t from = rep.host_of[move.from_device];
    const int32_t to = rep.host_of[move.to_device];
    if (from == to) continue;
    sets[from].Add(to);
    sets[to].Add(from);
  }
  std::vector<std::vector<int32_t>> exchanges;
  exchanges.reserve(sets.size());
  for (IndexSet& set : sets) exchanges.push_back(set.Take());
  return exchanges;
}

}  // namespace remesh::planner
