// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/cache/cached_plan.h"
#include "server/cache/eviction.h"
#include "server/cache/plan_file.h"

namespace remesh::server {

// The tier of the plan cache behind memory: a PlanStore, or nothing. Methods that return no status
// never fail their caller. Thread-safe.
class DiskTier {
 public:
  virtual ~DiskTier() = default;

  // False: there is no disk tier, and nothing is ever found.
  virtual bool present() const = 0;

  // The plan for this request, if the tier has it undamaged. Reads the disk.
  virtual std::optional<CachedPlan> Find(const planner::CanonicalRequest& request) = 0;
  // Whether the tier has a plan, damaged or not.
  virtual bool Has(const std::string& fingerprint) = 0;
  // The name with its spec, if the tier has it undamaged. Reads the disk.
  virtual std::optional<PlanFile::Name> FindName(const std::string& name) = 0;
  virtual std::vector<PlanFile::Name> PinnedNames() = 0;
  // See PlanFile::NamesAfter().
  virtual std::vector<PlanFile::Name> NamesAfter(absl::Time created, const std::string& name,
                                                 int64_t count) = 0;

  // These two are written later, in order.
  virtual void Store(std::shared_ptr<const CachedPlan> plan,
                     std::optional<PlanFile::Name> name = {}) = 0;
  virtual void StoreName(PlanFile::Name name) = 0;
  virtual void UpdateNames(std::vector<PlanFile::Name> names) = 0;  // see PlanFile

  // These return when the change is written; everything asked for before is written then too.
  virtual absl::Status Pin(PlanFile::Name name) = 0;  // UNAVAILABLE when it would not last
  virtual absl::Status Unpin(const std::string& name) = 0;
  virtual absl::StatusOr<bool> RemoveName(const std::string& name) = 0;
  // Removes all names but pinned ones and those in `kept`; returns how many names it removed.
  virtual absl::StatusOr<int64_t> RemoveAll(std::vector<std::string> kept) = 0;

  // Sets the callback for names that go without having been removed by name; it is called on a
  // thread of the tier. May be empty. Returns when the previous callback is no longer called; must
  // not be called by a callback.
  using OnEvicted = std::function<void(const std::vector<Evicted>&)>;
  virtual void SetOnEvicted(OnEvicted on_evicted) = 0;

  struct Stats {
    PlanFile::Size held;
    int64_t hits = 0;    // plans found
    int64_t misses = 0;  // plans not found
    int64_t reads = 0;   // reads of the file, for any purpose
    EvictionCounts evictions;
    int64_t errors = 0;  // reads and writes that failed or were dropped
  };
  virtual Stats stats() = 0;
  virtual const PlanFile::Limits& limits() const = 0;
};

// The tier of a cache that has memory only. Its pins last only as long as the process.
DiskTier& NoDisk();

}  // namespace remesh::server
