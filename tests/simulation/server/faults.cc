// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/server/faults.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace remesh::server {

bool Faults::Draw(Fault fault) {
  if (!may_happen(fault)) return false;
  const auto* row = std::ranges::find(kFaults, fault, &FaultRow::fault);
  REMESH_CHECK(row != std::end(kFaults));
  const double drawn = std::uniform_real_distribution<double>(0, 1)(random_);
  const bool happens = drawn < row->probability * options_.scale;
  if (happens) ++injected_[fault];
  return happens;
}

}  // namespace remesh::server
