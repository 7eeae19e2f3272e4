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

// A SQLite file of plans' bytes by fingerprint, and of the names under which somebody knows them.
// WAL without waiting for the disk at each commit: a killed process loses nothing that was
// committed, a machine that loses power may lose the last commits, but neither damages the file.
// One process at a time. Not thread-safe.
class PlanFile {
 public:
  // Opens or creates the file, checks every page and brings its schema up to date. DATA_LOSS when
  // it is damaged or of a newer program, FAILED_PRECONDITION when it is open elsewhere, UNAVAILABLE
  // otherwise (no such folder).
  static absl::StatusOr<std::unique_ptr<PlanFile>> Open(const std::string& path);

  struct Row {
    std::string bytes;
    double compute_seconds = 0;
  };
  absl::StatusOr<std::optional<Row>> Read(const std::string& fingerprint);
  absl::StatusOr<bool> Has(const std::string& fingerprint);
  absl::Status Write(const std::string& fingerprint, const Row& row, absl::Time now);
  absl::Status Touch(const std::string& fingerprint, absl::Time now);
  // Takes a row out of use, with its names but pinned ones, and keeps its bytes for whoever wants
  // to know; of many, the last 16.
  absl::Status SetAside(const std::string& fingerprint, const std::string& why,
                        std::vector<Evicted>& evicted);

  // Somebody's question and what is known of it. Times are kept to the microsecond.
  struct Name {
    std::string name;
    std::string fingerprint;
    std::string spec;   // a v1.PlanSpec; empty in lists
    std::string about;  // a v1.Plan
    absl::Time created;
    absl::Time used;
    int64_t hits = 0;
    bool pinned = false;
    int64_t bytes = 0;  // filled by reading: of the row
  };
  absl::Status WriteName(const Name& name);
  // All but the spec, of a name that is there; its plan counts as used then too.
  absl::Status UpdateName(const Name& name);
  absl::StatusOr<std::optional<Name>> ReadName(const std::string& name);
  // Removes the name, and its plan when it was the last; whether it was there.
  absl::StatusOr<bool> RemoveName(const std::string& name);
  absl::Status SetPinned(const std::string& name, bool pinned);
  absl::StatusOr<std::vector<Name>> PinnedNames();
  // Newest first, equal times by name: up to `count` that come after (created, name).
  absl::StatusOr<std::vector<Name>> NamesAfter(absl::Time created, const std::string& name,
                                               int64_t count);

  // Removes everything but pinned names, `kept` and their plans.
  absl::StatusOr<std::vector<Evicted>> RemoveAll(const std::vector<std::string>& kept);

  struct Limits {
    int64_t max_bytes = 0;
    int64_t max_entries = 0;  // of names, and of plans
    absl::Duration max_age;   // since the last use
  };
  // Removes what is too old, then the least recently used, none pinned.
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
  // Deletes names WHERE `condition`.
  absl::Status RemoveNames(const std::string& condition, std::initializer_list<SqlValue> values,
                           EvictionCause cause, std::vector<Evicted>& evicted);
  // Removes the plan or name that nobody used for longest; false when the rest is pinned.
  absl::StatusOr<bool> RemoveOldest(EvictionCause cause, std::vector<Evicted>& evicted);

  const std::unique_ptr<Database> database_;
};

}  // namespace remesh::server
