// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "server/coordination/process.h"

namespace remesh::server::coordination {

// A world as its members see it: each of them receives all. So the bytes of that event grow with
// the square of the world, but for those that all have in common, which are made once.
struct FormedWorld {
  int64_t epoch = 0;
  int size = 0;
  // By rank; empty for a member that joined again. Of a world that is too large for all of them to be
  // sent to each of them, only that of rank 0.
  std::vector<Process> members;

  // v1::WorldEvent with `formed`, in two parts: what the member of this rank gets alone, and what
  // all get. `members` must not change any more. Thread-safe.
  std::string EventHead(int rank) const;
  const std::string& EventRest() const;

 private:
  mutable absl::once_flag once_;
  mutable std::string rest_;
};

}  // namespace remesh::server::coordination
