// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace remesh {

// Values of a statement's parameters; text and bytes must live as long as it runs.
struct SqlText {
  std::string_view text;
};
struct SqlBytes {
  std::string_view bytes;
};
using SqlValue = std::variant<int64_t, SqlText, SqlBytes>;

// A journal's SQLite file, locked and synchronous: WAL, synchronous=FULL. Errors: DATA_LOSS
// (JOURNAL_CORRUPT), FAILED_PRECONDITION (JOURNAL_LOCKED), RESOURCE_EXHAUSTED (JOURNAL_FULL),
// UNAVAILABLE (JOURNAL_IO). Not thread-safe.
class Database {
 public:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  // Opens or creates the file and locks it. Nothing of it changes, not even when it is closed,
  // until Own().
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // From now on the file is ours to write.
  absl::Status Own();

  absl::Status Execute(const char* sql);
  absl::StatusOr<Statement> Prepare(const char* sql);
  // Parameters ?1, ?2, ... in order; `visit` sees each row.
  absl::Status Run(
      sqlite3_stmt* statement, std::initializer_list<SqlValue> values,
      absl::FunctionRef<void(sqlite3_stmt* row)> visit = [](sqlite3_stmt*) {});
  absl::Status Query(const char* sql, absl::FunctionRef<void(sqlite3_stmt* row)> visit);

  const std::string& path() const { return path_; }
  static std::string Bytes(sqlite3_stmt* row, int column);
  static int64_t Number(sqlite3_stmt* row, int column);

  // Moves what the WAL holds into the file when it has become long. JOURNAL_FULL when that takes
  // room that is not there; then the WAL goes on growing.
  absl::Status CheckpointWhenDue();
  // Gives pages that hold nothing any more back to the disk, up to 4 MB of them at a time. Of a
  // file that was made without auto_vacuum, none.
  absl::Status GiveBackFreePages();
  // Moves what the WAL holds into the file, and gives its room back to the disk.
  absl::Status EmptyWal();
  int64_t WalBytes() const;

 private:
  Database(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}
  absl::Status Error(int code) const;
  absl::Status Checkpoint(int mode);

  const std::string path_;
  sqlite3* database_;
  int wal_pages_ = 0;
};

}  // namespace remesh
