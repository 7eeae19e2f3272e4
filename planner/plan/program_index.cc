// SPDX-License-Identifier: Apache-2.0
#include "planner/plan/program_index.h"

#include <algorithm>

#include "planner/plan/plan_rep.h"

namespace remesh::planner {

absl::Span<const int32_t> ProgramIndex::Lists::Of(int32_t list) const {
  if (list + 1 >= std::ssize(begin)) return {};
  return absl::MakeConstSpan(numbers).subspan(begin[list], begin[list + 1] - begin[list]);
}

template <typename Visit>
ProgramIndex::Lists ProgramIndex::MakeLists(size_t count, Visit visit) {
  Lists lists{.begin = std::vector<int32_t>(count + 1, 0), .numbers = {}};
  visit([&](int32_t list, int32_t) { ++lists.begin[list + 1]; });
  for (size_t i = 0; i < count; ++i) lists.begin[i + 1] += lists.begin[i];
  lists.numbers.resize(lists.begin.back());
  std::vector<int32_t> next(lists.begin.begin(), lists.begin.end() - 1);
  visit([&](int32_t list, int32_t number) { lists.numbers[next[list]++] = number; });
  return lists;
}

ProgramIndex::ProgramIndex(const Plan& plan) {
  const PlanRep& rep = plan.rep();
  if (rep.moves.empty()) return;
  const size_t hosts = *std::max_element(rep.host_of.begin(), rep.host_of.end()) + 1;
  moves_ = MakeLists(hosts, [&](auto add) {
    for (int32_t m = 0; m < std::ssize(rep.moves); ++m) {
      const int32_t from = rep.host_of[rep.moves[m].from_device];
      const int32_t to = rep.host_of[rep.moves[m].to_device];
      add(from, m);
      if (to != from) add(to, m);
    }
  });
  if (rep.stripes.empty()) return;
  stripes_ = MakeLists(rep.segment_tape.size(), [&](auto add) {
    for (int32_t s = 0; s < std::ssize(rep.stripes); ++s) {
      add(rep.moves[rep.stripes[s].move].segment, s);
    }
  });
}

}  // namespace remesh::planner
