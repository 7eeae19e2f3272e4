// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "planner/canonical/canonical.h"
#include "remesh/v1/plan.pb.h"
#include "server/cache/cache_counters.h"
#include "server/cache/disk_tier.h"
#include "server/cache/listed_plan.h"
#include "server/cache/memory_tier.h"
#include "server/cache/plan_watchers.h"
#include "server/cache/question_memo.h"

namespace remesh::server {

// What a lookup is to the cache: what it counts, and what it leaves behind.
enum class Access {
  kPeek,    // nothing, as if it had not been; looks into memory only
  kView,    // somebody looks at a plan, which counts as used now
  kTry,     // a question: a hit or a miss; files nothing
  kAnswer,  // the same, and the plan is filed under the question's name
  kUse,     // the same, and it stays until EndUse()
  kAhead,   // files it although nobody has asked yet: neither hit nor miss
};
enum class Reach { kMemory, kDisk };

// Plans by the fingerprint of their canonical request, each under the names of every binding that
// asked for it; the least recently used go when limits are exceeded, but none that is pinned or in
// use. Equal requests that come together are computed once. Behind it may stand a tier on disk,
// asked before a plan is computed; what memory answers touches neither. Thread-safe. Losing an
// entry costs time, never correctness. (More methods than most: each is a call of the API or a step
// of one under the one lock.)
// One or two for each call of the plan service: it has more than 25 methods.
class PlanCache {
 public:
  struct Options {
    MemoryTier::Limits limits;
    DiskTier* disk = &NoDisk();  // must outlive the cache
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };
  explicit PlanCache(Options options);
  explicit PlanCache(int64_t max_bytes, DiskTier& disk = NoDisk())
      : PlanCache(Options{.limits = {.max_bytes = max_bytes}, .disk = &disk}) {}
  ~PlanCache();

  struct Question {
    planner::CanonicalizedRequest canonicalized;
    std::shared_ptr<const std::string> spec;  // as in BoundPlan
    Access access = Access::kAnswer;          // not kPeek or kView
    std::string state = "";                   // on whose behalf, or ""
  };
  struct Answer {
    BoundPlanPtr plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
  };
  using Compute = absl::FunctionRef<absl::StatusOr<CachedPlan>(const planner::CanonicalRequest&)>;
  // Finds the plan or computes it, without the lock; waits when an equal request is being computed.
  // Without the disk no miss counts: FindKept() has counted it.
  absl::StatusOr<Answer> FindOrCompute(const Question& question, Compute compute,
                                       Reach reach = Reach::kDisk);
  // The answer if memory or disk has the plan, and nobody computes an equal one now: never waits
  // for planning.
  std::optional<Answer> FindKept(const Question& question);
  // A plan by its name. NOT_FOUND (PLAN_NOT_FOUND) when never made or gone.
  absl::StatusOr<ListedPlan> Find(const std::string& name, Access access = Access::kView,
                                  Reach reach = Reach::kDisk, const std::string& state = "");
  // Whether any tier has a plan of that structure. May read the disk.
  bool Has(const std::string& fingerprint);
  // Files a plan that came from elsewhere, unless an equal one is there. REQUIRES: it answers the
  // question.
  ListedPlan Import(const Question& question, CachedPlan plan);
  // Names of plans by questions in the callers' words; see Find().
  QuestionMemo& memo() { return memo_; }

  void EndUse(const std::string& name);
  // Pins (or unpins) and returns the plan; on disk before it returns. UNAVAILABLE (PIN_NOT_DURABLE)
  // when that cannot be.
  absl::StatusOr<ListedPlan> SetPinned(const std::string& name, bool pinned);
  // Forgets the name, and the plan unless it has others. FAILED_PRECONDITION (PLAN_PINNED,
  // PLAN_IN_USE).
  absl::Status Delete(const std::string& name);
  // Empties tiers but for what is pinned or in use.
  absl::StatusOr<v1::FlushPlansResponse> Flush(bool memory, bool disk);

  // Where a page of a list begins: after this plan.
  struct Place {
    absl::Time created = absl::InfiniteFuture();
    std::string name;
  };
  struct Placed {
    Place place;
    v1::Plan plan;
  };
  // Up to `count` plans of both tiers that come after, newest first; `more`: whether others may
  // follow.
  std::vector<Placed> After(const Place& after, size_t count, v1::PlanView view, bool& more);

  PlanWatchers& watchers() { return watchers_; }
  // Counts what happens to plans made ahead.
  void UpdatePrecompute(absl::FunctionRef<void(CacheCounters::Precompute&)> update);
  // Counts a question that waits for an equal one without asking FindOrCompute() until then.
  void CountWait();
  // Of memory; what is over them goes at once.
  void SetLimits(const MemoryTier::Limits& limits);
  // Drops what has become too old, and tells the disk now and then what was used.
  void Tick();
  v1::CacheStats stats();

 private:
  static constexpr size_t kQuestionsRemembered = 4096;

  using Name = MemoryTier::Name;
  using Facts = std::optional<NameFacts>;  // what the disk knows of a name
  struct Found {
    CachedPlan plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
    Facts facts;
  };
  absl::StatusOr<Answer> Look(const Question& question, Reach reach, const Facts& facts,
                              Compute compute);
  // From disk, or computed, for a question that is in computing_, which it ends.
  absl::StatusOr<Answer> LookBelow(const Question& question, Reach reach, const Facts& facts,
                                   Compute compute);
  absl::StatusOr<Found> FindBelow(const Question& question, Reach reach, Facts facts,
                                  Compute compute);
  // The answer from memory; no plan when there is none.
  Answer LookInMemory(const Question& question, Reach reach, const Facts& facts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Answer Keep(const Question& question, Found found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Name& Add(const BoundPlanPtr& plan, const Question& question, const Facts& facts,
            v1::WatchPlansResponse::Event event = v1::WatchPlansResponse::CREATED)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountHit(Access access, const std::string& state, Name& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountUse(Access access, const std::string& state, Name& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings a name from disk to memory; not found is no error here.
  absl::Status Load(const std::string& name);
  absl::StatusOr<Name*> FindName(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WritePin(const std::string& name, bool pinned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pin_mutex_);
  void MakeRoom(const std::string& spared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What Flush() keeps.
  std::vector<std::string> KeptNames() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t FlushMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(const Name& name, EvictionCause cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SaveFacts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnEvictedFromDisk(const std::vector<Evicted>& evicted);
  void Publish(v1::WatchPlansResponse::Event event, const ListedPlan& listed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Now() const;  // to the microsecond

  const Options options_;
  DiskTier& disk_;
  PlanWatchers watchers_;
  QuestionMemo memo_{kQuestionsRemembered};
  absl::Mutex pin_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // pins reach the disk in their order
  absl::Mutex mutex_;
  MemoryTier memory_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> computing_ ABSL_GUARDED_BY(mutex_);  // fingerprints
  std::set<std::string> ahead_ ABSL_GUARDED_BY(mutex_);      // made ahead, not asked for since
  absl::Time saved_ ABSL_GUARDED_BY(mutex_);
  CacheCounters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server
