// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace remesh::server {

// Why a name goes although no one removed it by name.
enum class EvictionCause { kBytes, kEntries, kAge, kCorrupt, kFlushed };

struct Evicted {
  std::string name;   // "" for a plan without one
  std::string about;  // as in PlanFile::Name
  EvictionCause cause = EvictionCause::kBytes;
};

// Names that a tier has lost, by cause.
struct EvictionCounts {
  int64_t bytes = 0;
  int64_t entries = 0;
  int64_t age = 0;
  int64_t corrupt = 0;
  int64_t flushed = 0;
  int64_t deleted = 0;  // removed by name: no evictions

  void Count(EvictionCause cause);
};

}  // namespace remesh::server
