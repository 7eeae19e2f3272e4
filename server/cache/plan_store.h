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
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "remesh/v1/cache.pb.h"
#include "server/cache/cached_plan.h"
#include "server/cache/plan_file.h"

namespace remesh {

// The disk tier of the plan cache: plans by fingerprint, as compressed checked bytes, and the names
// that they are bound to; both outlive the process. Writes happen on a thread of its own. Losing a
// plan costs time, so nothing here fails its caller: damaged rows and files are set aside, logged
// and counted. Thread-safe.
class PlanStore {
 public:
  struct Options {
    std::string path;
    PlanFile::Limits limits = {
        .bytes_max = int64_t{1} << 30, .entries_max = 100'000, .age_max = absl::Hours(24 * 30)};
    size_t waiting_max = 64;  // writes; plans beyond are dropped, pins and removals never
    std::function<absl::Time()> now = [] { return absl::Now(); };
  };

  // Errors that come closer than this are of one episode, and logged once.
  static constexpr absl::Duration kBetweenEpisodes = absl::Minutes(1);

  // A damaged file is renamed to path + ".corrupt" and a new one begun. UNAVAILABLE when that
  // cannot be done, or another process has the file.
  static absl::StatusOr<std::unique_ptr<PlanStore>> Open(Options options);
  // Writes what was asked for, then stops.
  ~PlanStore();

  // The plan of that request if it is there and sound. Reads the disk.
  std::optional<CachedPlan> Find(const CanonicalRequest& request);

  // Whether there is a plan, sound or not.
  bool Has(const std::string& fingerprint);

  // The name with its spec, if it is there and sound. Reads the disk.
  std::optional<PlanFile::Name> FindName(const std::string& name);
  std::vector<PlanFile::Name> PinnedNames();
  // See PlanFile::NamesAfter().
  std::vector<PlanFile::Name> NamesAfter(absl::Time created, const std::string& name,
                                         int64_t count);

  // Written some time later, in order.
  void Store(std::shared_ptr<const CachedPlan> plan, std::optional<PlanFile::Name> name = {});
  void StoreName(PlanFile::Name name);
  void UpdateNames(std::vector<PlanFile::Name> names);  // see PlanFile

  // These return when it is written; what was asked for before is written then too.
  absl::Status Pin(PlanFile::Name name);  // UNAVAILABLE when plans are kept in memory only
  absl::Status Unpin(const std::string& name);
  absl::StatusOr<bool> RemoveName(const std::string& name);
  // All but pinned names and `kept`; how many names went.
  absl::StatusOr<int64_t> RemoveAll(std::vector<std::string> kept);

  // Told, on the store's thread, of names that leave without having been removed by name. May be
  // empty. Returns when the one before is not called any more; not to be called by it.
  using OnLeft = std::function<void(const std::vector<PlanFile::Left>&)>;
  void SetOnLeft(OnLeft on_left);

  struct Stats {
    PlanFile::Size held;
    int64_t hits = 0;    // plans found
    int64_t misses = 0;  // and not
    int64_t reads = 0;   // of the file, for whatever
    v1::Evictions evictions;
    int64_t errors = 0;  // reads and writes that failed or were dropped
  };
  Stats stats();
  const PlanFile::Limits& limits() const { return options_.limits; }

  // Returns when all that was asked for before is written.
  void Flush();

 private:
  using LeftNames = std::vector<PlanFile::Left>;
  using Write = absl::AnyInvocable<absl::Status(PlanFile&, LeftNames&)>;
  using Prepare = absl::AnyInvocable<Write()>;  // what needs time but no file

  PlanStore(Options options, std::unique_ptr<PlanFile> file);
  void Post(Write write);
  absl::Status PostAndWait(Write write);
  bool HasRoom();
  void PostPrepared(Prepare prepare);
  void Run();
  void Perform(Write& write);
  absl::Status PerformLocked(Write& write, LeftNames& left)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  void Count(const LeftNames& left);
  // The answer to a read, or nothing after an error.
  template <typename T>
  T Read(absl::FunctionRef<absl::StatusOr<T>(PlanFile&)> read);
  // Counts, logs the first of an episode, and sets a damaged file aside.
  void OnError(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  void UpdateSize() ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);

  const Options options_;
  absl::Mutex left_mutex_;  // held while on_left_ runs
  OnLeft on_left_ ABSL_GUARDED_BY(left_mutex_);
  absl::Mutex file_mutex_;
  std::unique_ptr<PlanFile> file_ ABSL_GUARDED_BY(file_mutex_);  // null: given up
  absl::Time last_error_ ABSL_GUARDED_BY(file_mutex_) = absl::InfinitePast();
  absl::StatusCode last_code_ ABSL_GUARDED_BY(file_mutex_) = absl::StatusCode::kOk;

  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(file_mutex_);
  std::deque<Prepare> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh
