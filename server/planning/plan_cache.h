// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "planner/canonical.h"
#include "remesh/v1/plan.pb.h"
#include "server/planning/cached_plan.h"
#include "server/planning/plan_store.h"

namespace remesh {

// A cached plan with a caller's names.
struct BoundPlan {
  std::string name;  // plans/{...}
  std::shared_ptr<const CachedPlan> cached;
  Binding binding;
  std::shared_ptr<const v1::PlanSpec> spec;  // the question, topology spelled out
  absl::Time create_time;
};
using BoundPlanPtr = std::shared_ptr<const BoundPlan>;

// A plan and what only the cache knows of it.
struct ListedPlan {
  BoundPlanPtr plan;
  bool pinned = false;
  int64_t hits = 0;
  int64_t cached_bytes = 0;
};

// Plans by the fingerprint of their canonical request, each under the names of every binding that
// asked for it; the least recently used go when their bytes exceed the limit, but none that is
// pinned or in use. Equal requests that come together are computed once. Behind it may stand a
// store on disk, asked before a plan is computed. Thread-safe. Losing an entry costs time, never
// correctness.
class PlanCache {
 public:
  // `store` may be null; else it must outlive the cache.
  explicit PlanCache(int64_t bytes_max, PlanStore* store = nullptr)
      : bytes_max_(bytes_max), store_(store) {}

  struct Question {
    CanonicalizedRequest canonicalized;
    std::shared_ptr<const v1::PlanSpec> spec;
    absl::Time now;
    bool store = true;  // false: look, compute, but keep nothing
    bool use = false;   // keep the plan until EndUse(name)
  };
  struct Answer {
    BoundPlanPtr plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
  };
  using Compute = absl::FunctionRef<absl::StatusOr<CachedPlan>(const CanonicalRequest&)>;
  // Finds the plan or computes it, without the lock; waits when an equal request is being computed.
  absl::StatusOr<Answer> FindOrCompute(Question question, Compute compute);

  // NOT_FOUND (PLAN_NOT_FOUND) when never made or gone. `use`: as in Question.
  absl::StatusOr<ListedPlan> Find(const std::string& name, bool use = false);
  // The same without counting as a use.
  absl::StatusOr<ListedPlan> Peek(const std::string& name);
  void EndUse(const std::string& name);
  // Pins (or unpins) and returns the plan. Pins are kept on disk too.
  absl::StatusOr<ListedPlan> SetPinned(const std::string& name, bool pinned);
  // Forgets the plan, on disk too unless it has other names. FAILED_PRECONDITION (PLAN_PINNED,
  // PLAN_IN_USE).
  absl::Status Delete(const std::string& name);

  // Up to `size` plans used before `before` (0: all), most recently used first; `next`: what the
  // next page starts before, 0 when there is none.
  std::vector<ListedPlan> List(size_t size, uint64_t before, uint64_t& next);

  v1::CacheStats stats();

 private:
  struct Name {  // one binding of an entry
    BoundPlanPtr plan;
    uint64_t used = 0;  // rises with every use of any plan
    int64_t hits = 0;
    int64_t bytes = 0;
    int64_t users = 0;
    bool pinned = false;

    bool kept() const { return pinned || users > 0; }
  };
  struct Entry {
    std::shared_ptr<const CachedPlan> cached;
    std::set<std::string> names;
    int64_t bytes = 0;
  };

  struct Found {
    CachedPlan plan;
    v1::Planning::Cache cache;
  };
  // From disk, or computed.
  absl::StatusOr<Found> FindBelow(const CanonicalRequest& request, Compute compute);
  // The answer from memory; no plan when there is none.
  Answer FindLocked(const Question& question, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Files the plan under its name, if it is not yet.
  Name& Store(const BoundPlanPtr& plan, const Question& question)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Touch(Name& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveName(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom(const std::string& spared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ListedPlan ToListed(const Name& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Name*> FindName(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t bytes_max_;
  PlanStore* const store_;
  absl::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by fingerprint
  std::map<std::string, Name> names_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::string> by_use_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::set<std::string> computing_ ABSL_GUARDED_BY(mutex_);         // fingerprints
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_use_ ABSL_GUARDED_BY(mutex_) = 1;
  v1::CacheStats stats_ ABSL_GUARDED_BY(mutex_);
};

// The resource, without transfers.
v1::Plan ToProto(const ListedPlan& listed);

}  // namespace remesh
