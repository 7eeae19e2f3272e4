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
#include "server/cache/listed_plan.h"
#include "server/cache/memory_tier.h"
#include "server/cache/plan_store.h"
#include "server/cache/plan_watchers.h"
#include "server/cache/question_memo.h"

namespace remesh {

// Plans by the fingerprint of their canonical request, each under the names of every binding that
// asked for it; the least recently used go when limits are exceeded, but none that is pinned or in
// use. Equal requests that come together are computed once. Behind it may stand a store on disk,
// asked before a plan is computed; what memory answers touches neither. Thread-safe. Losing an
// entry costs time, never correctness.
class PlanCache {
 public:
  struct Options {
    MemoryTier::Limits limits;
    PlanStore* store = nullptr;  // may be null; else it must outlive the cache
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };
  explicit PlanCache(Options options);
  explicit PlanCache(int64_t bytes_max, PlanStore* store = nullptr)
      : PlanCache(Options{.limits = {.bytes_max = bytes_max}, .store = store}) {}
  ~PlanCache();

  struct Question {
    CanonicalizedRequest canonicalized;
    std::shared_ptr<const std::string> spec;  // as in BoundPlan
    bool store = true;                        // false: look, compute, but keep nothing
    bool use = false;                         // keep the plan until EndUse(name)
    bool ahead = false;                       // nobody asked yet: neither hit nor use
    bool looked = false;                      // after FindKept(): its misses are counted
    std::string state = "";
    std::optional<NameFacts> facts = {};  // what the disk knows of the name
  };
  struct Answer {
    BoundPlanPtr plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
  };
  using Compute = absl::FunctionRef<absl::StatusOr<CachedPlan>(const CanonicalRequest&)>;
  // The answer if memory or disk has the plan, and nobody computes an equal one now. Reads the
  // disk, never waits for planning.
  std::optional<Answer> FindKept(const Question& question);
  // Finds the plan or computes it, without the lock; waits when an equal request is being computed.
  absl::StatusOr<Answer> FindOrCompute(const Question& question, Compute compute);
  // Whether any tier has a plan of that structure. May read the disk.
  bool Has(const std::string& fingerprint);
  // Files a plan that came from elsewhere, unless an equal one is there. REQUIRES: it answers the
  // question.
  ListedPlan Import(const Question& question, CachedPlan plan);

  // A plan by name, from memory or disk. NOT_FOUND (PLAN_NOT_FOUND) when never made or gone. `use`
  // and `state`: as in Question.
  absl::StatusOr<ListedPlan> Find(const std::string& name, bool use = false,
                                  const std::string& state = "");
  // The same from memory only, and no error.
  std::optional<ListedPlan> FindInMemory(const std::string& name);
  // The plan that answers a question which memo() knows to lead to this name: a hit. From memory.
  std::optional<ListedPlan> FindAgain(const std::string& name);
  QuestionMemo& memo() { return memo_; }
  // From memory only, without counting as a use.
  absl::StatusOr<ListedPlan> Peek(const std::string& name);
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
  struct Page {
    std::vector<v1::Plan> plans;
    std::optional<Place> next;  // none: this was the last
  };
  // Up to `size` plans of both tiers that `filter` wants, newest first. REQUIRES: a valid filter.
  Page List(size_t size, Place after, const v1::PlanFilter& filter, v1::PlanView view);

  PlanWatchers& watchers() { return watchers_; }
  // Counts what happens to plans made ahead.
  void UpdatePrecompute(absl::FunctionRef<void(v1::PrecomputeStats&)> update);
  // Counts a question that waits for an equal one without asking FindOrCompute() until then.
  void CountWait();
  // Drops what has become too old, and tells the disk now and then what was used.
  void Tick();
  v1::CacheStats stats();

 private:
  static constexpr size_t kQuestionsRemembered = 4096;

  using Name = MemoryTier::Name;
  struct Found {
    CachedPlan plan;
    v1::Planning::Cache cache = v1::Planning::MISS;
    std::optional<NameFacts> facts;  // as in Question
  };
  // From disk, or computed.
  absl::StatusOr<Found> FindBelow(const Question& question, const std::string& name,
                                  Compute compute);
  // The same for FindBelow's answer to a question that is in computing_, which it ends.
  absl::StatusOr<Answer> Settle(const Question& question, const std::string& name, Compute compute);
  // The answer from memory; no plan when there is none.
  Answer FindLocked(const Question& question, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Answer FileFound(const Question& question, const std::string& name, Found found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Name& File(const BoundPlanPtr& plan, const Question& question,
             const std::optional<NameFacts>& facts,
             v1::WatchPlansResponse::Event event = v1::WatchPlansResponse::CREATED)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountHit(const Question& question, Name& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountUse(const Question& question, Name& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings a name from disk to memory; not found is no error here.
  absl::Status Load(const std::string& name);
  absl::StatusOr<Name*> FindName(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WritePin(const std::string& name, bool pinned)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pin_mutex_);
  void MakeRoom(const std::string& spared) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> FlushMemory(bool disk, v1::FlushPlansResponse& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct Candidate {
    Place place;
    v1::Plan plan;
  };
  // Up to `count` plans of both tiers that come after, in order; `more`: whether others may follow.
  std::vector<Candidate> CandidatesAfter(const Place& after, size_t count, v1::PlanView view,
                                         bool& more);
  void SaveFacts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnLeftDisk(const std::vector<PlanFile::Left>& left);
  void Publish(v1::WatchPlansResponse::Event event, const ListedPlan& listed,
               std::optional<PlanFile::Cause> cause = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Now() const;  // to the microsecond

  const Options options_;
  PlanStore* const store_;
  PlanWatchers watchers_;
  QuestionMemo memo_{kQuestionsRemembered};
  absl::Mutex pin_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // pins reach the disk in their order
  absl::Mutex mutex_;
  MemoryTier memory_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> computing_ ABSL_GUARDED_BY(mutex_);  // fingerprints
  std::set<std::string> ahead_ ABSL_GUARDED_BY(mutex_);      // made ahead, not asked for since
  absl::Time saved_ ABSL_GUARDED_BY(mutex_);
  v1::CacheStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace remesh
