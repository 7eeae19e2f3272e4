// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/planning/cached_plan.h"
#include "server/planning/plan_file.h"

namespace remesh {

// The disk tier of the plan cache: plans by fingerprint, as compressed checked bytes, that outlive
// the process. Writes happen on a thread of its own. Losing a plan costs time, so nothing here
// fails its caller: damaged rows and files are set aside, logged and counted. Thread-safe.
class PlanStore {
 public:
  struct Options {
    std::string path;
    PlanFile::Limits limits = {
        .bytes_max = int64_t{1} << 30, .entries_max = 100'000, .age_max = absl::Hours(24 * 30)};
    size_t waiting_max = 64;  // writes; plans beyond are dropped, pins and removals never
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };

  // A damaged file is renamed to path + ".corrupt" and a new one begun. UNAVAILABLE when that
  // cannot be done, or another process has the file.
  static absl::StatusOr<std::unique_ptr<PlanStore>> Open(Options options);
  // Writes what was asked for, then stops.
  ~PlanStore();

  // The plan of that request if it is there and sound. Reads the disk.
  std::optional<CachedPlan> Find(const CanonicalRequest& request);

  void Store(std::shared_ptr<const CachedPlan> plan);
  void Remove(const std::string& fingerprint);
  void RemoveAll();  // but pinned ones
  void Pin(PlanFile::Pin pin);
  void Unpin(const std::string& name);
  std::vector<PlanFile::Pin> Pins();

  struct Stats {
    int64_t entries = 0;
    int64_t bytes = 0;  // compressed
    int64_t bytes_max = 0;
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t evictions = 0;
    int64_t corrupt = 0;  // rows and files set aside
    int64_t errors = 0;   // reads and writes that failed or were dropped
  };
  Stats stats();

  // Returns when all that was asked for before is written.
  void Flush();

 private:
  using Write = absl::AnyInvocable<absl::Status(PlanFile&)>;
  using Prepare = absl::AnyInvocable<Write()>;  // what needs time but no file

  PlanStore(Options options, std::unique_ptr<PlanFile> file);
  void Post(Write write);
  void PostPrepared(Prepare prepare);
  void Run();
  void Perform(Write& write);
  // Counts and logs; sets a damaged file aside.
  void OnError(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  void UpdateSize() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);

  const Options options_;
  absl::Mutex file_mutex_;
  std::unique_ptr<PlanFile> file_ ABSL_GUARDED_BY(file_mutex_);  // null: given up

  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(file_mutex_);
  std::deque<Prepare> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh
