// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/canonical/canonical.h"
#include "planner/report/explanation.h"

namespace remesh::planner {

// Hosts, or domains of one level, on which a plan puts about the same load, shown to a reader as
// one.
struct AlikeTraffic {
  // Names that follow each other in the order of all names of the binding: {"a", "d"} is a to d.
  struct Run {
    std::string first, last;
    int32_t count = 1;

    friend bool operator==(const Run&, const Run&) = default;
  };
  std::vector<std::string> names;  // "gpu-2" before "gpu-10"
  std::vector<Run> runs;           // the same names as runs
  DomainTraffic least, most;       // of each number the least and the most among them; the first's
                                   // name, kind and level
  bool binding = false;            // whether one of them binds

  friend bool operator==(const AlikeTraffic&, const AlikeTraffic&) = default;
};

struct AlikeOptions {
  double within = 0.3;  // > 0; see AlikeOf()
  int32_t kinds_max = 8;
};

// Rows of one level are alike when each of their numbers (seconds in, seconds out, capacities) is 0
// for all or none, and otherwise differs by at most `within` of the level's largest, with no gap of
// a third of that between them. Where a level has more than `kinds_max` kinds, `within` is doubled
// until it has not, or until only zeros are told apart. Domains next to the root come first, hosts
// last; kinds of a level are in the order of their first names.
std::vector<AlikeTraffic> AlikeOf(std::vector<DomainTraffic> rows, const Binding& binding,
                                  const AlikeOptions& options = {});

}  // namespace remesh::planner
