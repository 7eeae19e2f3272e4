// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct sqlite3;
struct sqlite3_stmt;

namespace remesh {

// A SQLite file of plans' bytes by fingerprint, and of pins. WAL without waiting for the disk at
// each commit: a killed process loses nothing that was committed, a machine that loses power may
// lose the last commits, but neither damages the file. One process at a time. Not thread-safe.
class PlanFile {
 public:
  // Opens or creates the file, checks every page and brings its schema up to date. DATA_LOSS when
  // it is damaged or of a newer program, UNAVAILABLE otherwise (open elsewhere, no such folder).
  static absl::StatusOr<std::unique_ptr<PlanFile>> Open(const std::string& path);
  ~PlanFile();

  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

  struct Row {
    std::string bytes;
    double compute_seconds = 0;
  };
  absl::StatusOr<std::optional<Row>> Read(const std::string& fingerprint);
  absl::Status Write(const std::string& fingerprint, const Row& row, absl::Time now);
  absl::Status Touch(const std::string& fingerprint, absl::Time now);
  absl::Status Remove(const std::string& fingerprint);
  absl::Status RemoveAll();  // but what pins hold
  // Takes a row out of use and keeps its bytes for whoever wants to know; of many, the last 16.
  absl::Status SetAside(const std::string& fingerprint, const std::string& why);

  // Somebody's question whose plan must stay.
  struct Pin {
    std::string name;
    std::string fingerprint;
    std::string spec;  // a v1.PlanSpec
  };
  absl::Status WritePin(const Pin& pin);
  absl::Status RemovePin(const std::string& name);
  absl::StatusOr<std::vector<Pin>> Pins();

  struct Limits {
    int64_t bytes_max = 0;
    int64_t entries_max = 0;
    absl::Duration age_max;  // since the last use
  };
  // Removes what is too old, then the least recently used, none pinned; returns how many.
  absl::StatusOr<int64_t> Trim(const Limits& limits, absl::Time now);

  struct Size {
    int64_t entries = 0;
    int64_t bytes = 0;
  };
  absl::StatusOr<Size> size();

 private:
  using Blob = const std::string*;
  using Value = std::variant<int64_t, double, std::string, Blob>;  // a string is text
  using Values = std::vector<Value>;

  PlanFile(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  absl::Status Prepare();
  absl::Status Migrate();
  absl::Status Execute(const char* sql);
  // Runs one statement with ?1, ?2 ... bound, and visits its rows.
  absl::Status Query(
      const char* sql, const Values& values,
      absl::FunctionRef<void(sqlite3_stmt*)> visit = [](sqlite3_stmt*) {});
  absl::Status Error(int code) const;

  const std::string path_;
  sqlite3* const database_;
};

}  // namespace remesh
