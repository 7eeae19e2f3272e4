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

// What the plan cache asks of the tier behind memory: a PlanStore, or nothing. Nothing here fails
// its caller but where a status says so. Thread-safe.
class DiskTier {
 public:
  virtual ~DiskTier() = default;

  // False: there is none, and nothing is ever found.
  virtual bool present() const = 0;

  // The plan of that request if it is there and sound. Reads the disk.
  virtual std::optional<CachedPlan> Find(const planner::CanonicalRequest& request) = 0;
  // Whether there is a plan, sound or not.
  virtual bool Has(const std::string& fingerprint) = 0;
  // The name with its spec, if it is there and sound. Reads the disk.
  virtual std::optional<PlanFile::Name> FindName(const std::string& name) = 0;
  virtual std::vector<PlanFile::Name> PinnedNames() = 0;
  // See PlanFile::NamesAfter().
  virtual std::vector<PlanFile::Name> NamesAfter(absl::Time created, const std::string& name,
                                                 int64_t count) = 0;

  // Written some time later, in order.
  virtual void Store(std::shared_ptr<const CachedPlan> plan,
                     std::optional<PlanFile::Name> name = {}) = 0;
  virtual void StoreName(PlanFile::Name name) = 0;
  virtual void UpdateNames(std::vector<PlanFile::Name> names) = 0;  // see PlanFile

  // These return when it is written; what was asked for before is written then too.
  virtual absl::Status Pin(PlanFile::Name name) = 0;  // UNAVAILABLE when it would not last
  virtual absl::Status Unpin(const std::string& name) = 0;
  virtual absl::StatusOr<bool> RemoveName(const std::string& name) = 0;
  // All but pinned names and `kept`; how many names went.
  virtual absl::StatusOr<int64_t> RemoveAll(std::vector<std::string> kept) = 0;

  // Told, on a thread of the tier's, of names that go without having been removed by name. May be
  // empty. Returns when the one before is not called any more; not to be called by it.
  using OnEvicted = std::function<void(const std::vector<Evicted>&)>;
  virtual void SetOnEvicted(OnEvicted on_evicted) = 0;

  struct Stats {
    PlanFile::Size held;
    int64_t hits = 0;    // plans found
    int64_t misses = 0;  // and not
    int64_t reads = 0;   // of the file, for whatever
    EvictionCounts evictions;
    int64_t errors = 0;  // reads and writes that failed or were dropped
  };
  virtual Stats stats() = 0;
  virtual const PlanFile::Limits& limits() const = 0;
};

// The tier of a cache that has memory only. Pins last as long as the process, as they must.
DiskTier& NoDisk();

}  // namespace remesh::server
