// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/cache/eviction.h"
#include "server/sqlite/database.h"

namespace remesh::server {

// A SQLite file of plans' bytes by fingerprint, and of the names under which callers know them.
// Uses WAL without waiting for the disk at each commit: a killed process loses no commit, and a
// machine that loses power may lose the last ones, but neither damages the file. One process at a
// time. Not thread-safe.
class PlanFile {
 public:
  // Opens or creates the file, checks every page and brings its schema up to date. DATA_LOSS when
  // the file is damaged or from a newer program, FAILED_PRECONDITION when it is open elsewhere,
  // UNAVAILABLE otherwise (such as no such folder).
  static absl::StatusOr<std::unique_ptr<PlanFile>> Open(const std::string& path);

  struct Row {
    std::string bytes;
    double compute_seconds = 0;
  };
  absl::StatusOr<std::optional<Row>> Read(const std::string& fingerprint);
  absl::StatusOr<bool> Has(const std::string& fingerprint);
  absl::Status Write(const std::string& fingerprint, const Row& row, absl::Time now);
  absl::Status Touch(const std::string& fingerprint, absl::Time now);
  // Takes a row out of use, with its names except pinned ones, and keeps its bytes for later
  // analysis; keeps the last 16 such rows.
  absl::Status SetAside(const std::string& fingerprint, const std::string& why,
                        std::vector<Evicted>& evicted);

  // The name of a caller's question, and what is known of it. Times are kept to the microsecond.
  struct Name {
    std::string name;
    std::string fingerprint;
    std::string spec;   // a v1.PlanSpec; empty in lists
    std::string about;  // a v1.Plan
    absl::Time created;
    absl::Time used;
    int64_t hits = 0;
    bool pinned = false;
    int64_t bytes = 0;  // size of the plan's row; set when read
    // The caller for whom the plan was made ahead, or "". Not in the file: whoever opens it next
    // takes the plan for one that was asked for.
    std::string ahead_of = "";
  };
  absl::Status WriteName(const Name& name);
  // Updates all but the spec of a name that exists; its plan counts as used then too.
  absl::Status UpdateName(const Name& name);
  absl::StatusOr<std::optional<Name>> ReadName(const std::string& name);
  // Removes the name, and its plan if this was the last name. Returns whether the name existed.
  absl::StatusOr<bool> RemoveName(const std::string& name);
  absl::Status SetPinned(const std::string& name, bool pinned);
  absl::StatusOr<std::vector<Name>> PinnedNames();
  // Up to `count` names after (created, name), newest first, equal times by name.
  absl::StatusOr<std::vector<Name>> NamesAfter(absl::Time created, const std::string& name,
                                               int64_t count);

  // Removes everything but pinned names, `kept` and their plans.
  absl::StatusOr<std::vector<Evicted>> RemoveAll(const std::vector<std::string>& kept);

  struct Limits {
    int64_t max_bytes = 0;
    int64_t max_entries = 0;  // of names, and also of plans
    absl::Duration max_age;   // since the last use
  };
  // Removes what is too old. Then, as far as the limits demand, names made ahead that no caller has
  // asked for and that take more than a quarter of the limits for one caller; then the least
  // recently used. Never what is pinned.
  absl::StatusOr<std::vector<Evicted>> Trim(const Limits& limits, absl::Time now);

  struct Size {
    int64_t plans = 0;
    int64_t names = 0;
    int64_t pinned = 0;
    int64_t bytes = 0;
  };
  absl::StatusOr<Size> size();

 private:
  explicit PlanFile(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status Prepare();
  absl::Status Migrate();
  // Deletes the names WHERE `condition`.
  absl::Status RemoveNames(const std::string& condition, std::initializer_list<SqlValue> values,
                           EvictionCause cause, std::vector<Evicted>& evicted);
  // Removes the oldest name of a caller for whom too much was made ahead; false: there is none.
  absl::StatusOr<bool> RemoveAhead(const Limits& limits, EvictionCause cause,
                                   std::vector<Evicted>& evicted);
  // Removes the plan if it has no name.
  absl::Status RemoveUnnamed(const std::string& fingerprint);
  // Removes the plan or name that was not used for longest; false when everything left is pinned.
  absl::StatusOr<bool> RemoveOldest(EvictionCause cause, std::vector<Evicted>& evicted);

  const std::unique_ptr<Database> database_;
};

}  // namespace remesh::server
