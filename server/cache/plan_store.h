// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/task_queue.h"
#include "server/cache/disk_tier.h"

namespace remesh::server {

// Plans on disk, by fingerprint, as compressed bytes with a digest, and the names that they are
// bound to. Both outlive the process. Writes happen on a thread of its own. Losing a plan costs
// time, so errors of the disk do not reach callers: damaged rows and files are set aside, logged
// and counted. Thread-safe.
class PlanStore : public DiskTier {
 public:
  struct Options {
    std::string path;
    PlanFile::Limits limits = {
        .max_bytes = int64_t{1} << 30, .max_entries = 100'000, .max_age = absl::Hours(24 * 30)};
    size_t waiting_max = 64;  // writes; further plans are dropped, pins and removals never
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };

  // Errors closer together than this belong to one episode, which is logged once.
  static constexpr absl::Duration kBetweenEpisodes = absl::Minutes(1);

  // Renames a damaged file to path + ".corrupt" and begins a new one. UNAVAILABLE when that fails,
  // or another process has the file open.
  static absl::StatusOr<std::unique_ptr<PlanStore>> Open(Options options);
  // Writes everything that was asked for, then stops.
  ~PlanStore() override = default;

  bool present() const override { return true; }
  std::optional<CachedPlan> Find(const planner::CanonicalRequest& request) override;
  bool Has(const std::string& fingerprint) override;
  std::optional<PlanFile::Name> FindName(const std::string& name) override;
  std::vector<PlanFile::Name> PinnedNames() override;
  std::vector<PlanFile::Name> NamesAfter(absl::Time created, const std::string& name,
                                         int64_t count) override;
  void Store(std::shared_ptr<const CachedPlan> plan,
             std::optional<PlanFile::Name> name = {}) override;
  void StoreName(PlanFile::Name name) override;
  void UpdateNames(std::vector<PlanFile::Name> names) override;
  absl::Status Pin(PlanFile::Name name) override;  // UNAVAILABLE (PIN_NOT_DURABLE)
  absl::Status Unpin(const std::string& name) override;
  absl::StatusOr<bool> RemoveName(const std::string& name) override;
  absl::StatusOr<int64_t> RemoveAll(std::vector<std::string> kept) override;
  void SetOnEvicted(OnEvicted on_evicted) override;
  Stats stats() override;
  const PlanFile::Limits& limits() const override { return options_.limits; }

  // Returns when everything asked for before is written.
  void Flush() { writes_.Flush(); }

 private:
  using EvictedNames = std::vector<Evicted>;
  using Write = absl::AnyInvocable<absl::Status(PlanFile&, EvictedNames&)>;
  using Prepare = absl::AnyInvocable<Write()>;  // the slow part, without the file

  PlanStore(Options options, std::unique_ptr<PlanFile> file);
  void Post(Write write);
  absl::Status PostAndWait(Write write);
  bool HasRoom();
  void PostPrepared(Prepare prepare);
  void Perform(Write write);
  absl::Status PerformLocked(Write& write, EvictedNames& evicted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  void Count(const EvictedNames& evicted);
  // The answer to a read, or an empty one after an error.
  template <typename T>
  T Read(absl::FunctionRef<absl::StatusOr<T>(PlanFile&)> read);
  // Counts the error, logs the first of an episode, and sets a damaged file aside.
  void OnError(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);

  const Options options_;
  absl::Mutex evicted_mutex_;  // held while on_evicted_ runs
  OnEvicted on_evicted_ ABSL_GUARDED_BY(evicted_mutex_);
  absl::Mutex file_mutex_;
  std::unique_ptr<PlanFile> file_ ABSL_GUARDED_BY(file_mutex_);  // null: given up
  absl::Time last_error_ ABSL_GUARDED_BY(file_mutex_) = absl::InfinitePast();
  absl::StatusCode last_code_ ABSL_GUARDED_BY(file_mutex_) = absl::StatusCode::kOk;

  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(file_mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  TaskQueue writes_;  // last: its tasks use all of the above
};

}  // namespace remesh::server
