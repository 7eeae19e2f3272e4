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

namespace remesh::server {

// Values of a statement's parameters. Texts and bytes must live as long as the statement runs.
struct SqlText {
  SqlText(std::string_view text) : text(text) {}
  SqlText(const std::string& text) : text(text) {}  // lets a string become a SqlValue in one step
  std::string_view text;
};
struct SqlBytes {
  std::string_view bytes;
};
using SqlValue = std::variant<int64_t, double, SqlText, SqlBytes>;

// A SQLite file that one process has open. Errors, with the prefix given to Open(): DATA_LOSS
// (_CORRUPT), FAILED_PRECONDITION (_LOCKED), RESOURCE_EXHAUSTED (_FULL), UNAVAILABLE (_IO). Not
// thread-safe.
class Database {
 public:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  // For errors: `name` begins their messages, `reason_prefix` their reasons.
  struct Kind {
    const char* name;
    const char* reason_prefix;
  };
  // Opens or creates the file without looking at its contents. UNAVAILABLE (_IO) if the file may
  // not be written, or if another user can have put it there: see OpenOwnFile().
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Kind kind);
  // Opens a file for reading that no one changes in the meantime. Writes and locks nothing and
  // looks for no files beside it, so the contents of a WAL beside it are not seen.
  static absl::StatusOr<std::unique_ptr<Database>> OpenUnchanging(const std::string& path,
                                                                  Kind kind);
  ~Database();

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Keeps every other process out until the file is closed. `settings` are pragmas that must be in
  // force before anything is written.
  absl::Status Lock(const char* settings);
  // Makes commits go to a log beside the file. REQUIRES: Lock().
  absl::Status UseWal();

  absl::Status Execute(const char* sql);
  absl::StatusOr<Statement> Prepare(const char* sql);
  // Binds `values` to the parameters ?1, ?2, ... in order; calls `visit` with each row.
  absl::Status Run(
      sqlite3_stmt* statement, std::initializer_list<SqlValue> values,
      absl::FunctionRef<void(sqlite3_stmt* row)> visit = [](sqlite3_stmt*) {});
  absl::Status Query(
      const char* sql, std::initializer_list<SqlValue> values,
      absl::FunctionRef<void(sqlite3_stmt* row)> visit = [](sqlite3_stmt*) {});

  const std::string& path() const { return path_; }
  sqlite3* handle() { return database_; }
  // The error that a failed call on the handle means.
  absl::Status Error(int code) const;

  static std::string Bytes(sqlite3_stmt* row, int column);
  static int64_t Number(sqlite3_stmt* row, int column);

 private:
  static absl::StatusOr<std::unique_ptr<Database>> OpenAs(const std::string& path,
                                                          const std::string& name, int flags,
                                                          Kind kind);
  Database(std::string path, Kind kind, sqlite3* database)
      : path_(std::move(path)), kind_(kind), database_(database) {}

  absl::Status Make(absl::StatusCode code, const char* reason, const std::string& what) const;
  absl::Status NotWritable() const;
  static absl::Status CreateOwn(const std::string& path, Kind kind);

  const std::string path_;
  const Kind kind_;
  sqlite3* const database_;
};

}  // namespace remesh::server
