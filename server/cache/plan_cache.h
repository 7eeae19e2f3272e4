// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
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

// How the cache treats a lookup: how it counts it, and what it keeps of it.
enum class Access {
  kPeek,    // counts and keeps nothing; looks into memory only
  kView,    // a caller looks at a plan, which counts as used now
  kTry,     // a question, which counts as a hit or a miss; keeps nothing
  kAnswer,  // as kTry, and keeps the plan under the question's name
  kUse,     // as kAnswer, and the plan stays until EndUse()
  kAhead,   // keeps a plan that no one has asked for yet: no hit, no miss
};
enum class Reach { kMemory, kDisk };

// Plans by the fingerprint of their canonical request, each under the names of all bindings that
// asked for it. When limits are exceeded, names go in the order of MemoryTier, never one that is
// pinned or in use. Equal requests that come at the same time are computed once. A disk tier may
// stand behind memory; it is asked before a plan is computed. A hit in memory uses neither the disk
// nor the planner. Losing an entry costs time, never correctness. Thread-safe.
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
    int32_t hosts_assumed = 0;                // of the request's topology
    Access access = Access::kAnswer;          // not kPeek or kView
    std::string state = "";                   // the state that asks, or ""
    std::string ahead_of = "";                // kAhead: the caller who wants it made, or ""
  };
  struct Answer {
    BoundPlanPtr plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
  };
  using Compute = absl::FunctionRef<absl::StatusOr<CachedPlan>(const planner::CanonicalRequest&)>;
  // Finds the plan or computes it, without holding the lock; waits while an equal request is being
  // computed. With Reach::kMemory no miss counts, because FindKept() has counted it.
  absl::StatusOr<Answer> FindOrCompute(const Question& question, Compute compute,
                                       Reach reach = Reach::kDisk);
  // The answer, if memory or disk has the plan and no equal question is being computed now. Never
  // waits for planning.
  std::optional<Answer> FindKept(const Question& question);
  // A plan by its name. NOT_FOUND (PLAN_NOT_FOUND) when it was never made or is gone.
  absl::StatusOr<ListedPlan> Find(const std::string& name, Access access = Access::kView,
                                  Reach reach = Reach::kDisk, const std::string& state = "");
  // Whether any tier has a plan with this fingerprint. May read the disk.
  bool Has(const std::string& fingerprint);
  // Adds a plan that came from elsewhere, unless the cache has an equal one. REQUIRES: the plan
  // answers the question.
  ListedPlan Import(const Question& question, CachedPlan plan);
  // Names of plans by the text of the questions that led to them; see Find().
  QuestionMemo& memo() { return memo_; }

  void EndUse(const std::string& name);
  // Pins (or unpins) and returns the plan. The change is on disk when this returns. UNAVAILABLE
  // (PIN_NOT_DURABLE) when it cannot be written.
  absl::StatusOr<ListedPlan> SetPinned(const std::string& name, bool pinned);
  // Removes the name, and the plan unless it has other names. FAILED_PRECONDITION (PLAN_PINNED,
  // PLAN_IN_USE).
  absl::Status Delete(const std::string& name);
  // Empties the tiers, except for plans that are pinned or in use.
  absl::StatusOr<v1::FlushPlansResponse> Flush(bool memory, bool disk);

  // The place where a page of a list begins: after this plan.
  struct Place {
    absl::Time created = absl::InfiniteFuture();
    std::string name;
  };
  struct Placed {
    Place place;
    std::variant<ListedPlan, PlanFile::Name> plan;  // in memory, or only on disk
  };
  // Up to `count` plans of both tiers after the place, newest first. `more`: whether others may
  // follow.
  std::vector<Placed> After(const Place& after, size_t count, bool& more);

  PlanWatchers& watchers() { return watchers_; }
  // Updates the counters of plans made ahead.
  void UpdatePrecompute(absl::FunctionRef<void(CacheCounters::Precompute&)> update);
  // Counts a question that waits for an equal one and calls FindOrCompute() only later.
  void CountWait();
  // Sets the limits of memory; what exceeds them goes at once.
  void SetLimits(const MemoryTier::Limits& limits);
  // Drops what has become too old, and from time to time tells the disk what was used.
  void Tick();
  v1::CacheStats stats();

 private:
  static constexpr size_t kQuestionsRemembered = 4096;

  using Name = MemoryTier::Name;
  using Facts = std::optional<NameFacts>;  // facts of a name on disk
  struct Found {
    CachedPlan plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
    Facts facts;
  };
  absl::StatusOr<Answer> Look(const Question& question, Reach reach, const Facts& facts,
                              Compute compute);
  // Answers from disk or by computing. The question is in computing_, from which this removes it.
  absl::StatusOr<Answer> LookBelow(const Question& question, Reach reach, const Facts& facts,
                                   Compute compute);
  absl::StatusOr<Found> FindBelow(const Question& question, Reach reach, Facts facts,
                                  Compute compute);
  // The answer from memory; its plan is null when there is none.
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
  // Brings a name from disk to memory. OK also if the disk does not have it.
  absl::Status Load(const std::string& name);
  absl::StatusOr<Name*> FindName(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WritePin(const std::string& name, bool pinned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pin_mutex_);
  void MakeRoom(const std::string& spared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The names that Flush() keeps.
  std::vector<std::string> KeptNames() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t FlushMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(const Name& name, EvictionCause cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SaveFacts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnEvictedFromDisk(const std::vector<Evicted>& evicted);
  void Publish(v1::WatchPlansResponse::Event event, const ListedPlan& listed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Now() const;  // in whole microseconds

  const Options options_;
  DiskTier& disk_;
  PlanWatchers watchers_;
  QuestionMemo memo_{kQuestionsRemembered};
  absl::Mutex pin_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // pins reach the disk in order
  absl::Mutex mutex_;
  MemoryTier memory_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> computing_ ABSL_GUARDED_BY(mutex_);  // fingerprints
  std::set<std::string> ahead_ ABSL_GUARDED_BY(mutex_);      // made ahead and not yet asked for
  absl::Time saved_ ABSL_GUARDED_BY(mutex_);
  CacheCounters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh::server
