// SPDX-License-Identifier: Apache-2.0
#include "server/sqlite/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

int Bind(sqlite3_stmt* statement, int index, const SqlValue& value) {
  if (const int64_t* number = std::get_if<int64_t>(&value)) {
    return sqlite3_bind_int64(statement, index, *number);
  }
  if (const double* number = std::get_if<double>(&value)) {
    return sqlite3_bind_double(statement, index, *number);
  }
  if (const SqlText* text = std::get_if<SqlText>(&value)) {
    return sqlite3_bind_text64(statement, index, text->text.data(), text->text.size(),
                               SQLITE_STATIC, SQLITE_UTF8);
  }
  const std::string_view bytes = std::get<SqlBytes>(value).bytes;
  // A null pointer would bind NULL, which is not an empty blob.
  if (bytes.empty()) return sqlite3_bind_zeroblob(statement, index, 0);
  return sqlite3_bind_blob64(statement, index, bytes.data(), bytes.size(), SQLITE_STATIC);
}

// A failed write of data counts as full; a failed sync does not, because data written before may be
// gone.
bool IsFull(int code, int system_error) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return code == SQLITE_IOERR_WRITE && (system_error == ENOSPC || system_error == EDQUOT);
}

// The path with all links of its folder resolved. With SQLITE_OPEN_NOFOLLOW, SQLite refuses a link
// in any part of a path, but operators may well put the folder behind one.
std::string InRealFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  const std::filesystem::path folder = std::filesystem::canonical(whole.parent_path(), error);
  return error ? path : (folder / whole.filename()).string();
}

}  // namespace

void Database::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::Status Database::Make(absl::StatusCode code, const char* reason,
                            const std::string& what) const {
  return MakeError(code, absl::StrCat(kind_.name, " ", path_, ": ", what),
                   {.reason = absl::StrCat(kind_.reason_prefix, reason),
                    .metadata = {{"path", path_}, {"error", what}}});
}

// SQLite opens a file that it may not write for reading, and later fails with "disk I/O error".
absl::Status Database::NotWritable() const {
  return Make(absl::StatusCode::kUnavailable, "_IO",
              absl::StrCat("user ", geteuid(), " may not write the file"));
}

absl::Status Database::Error(int code) const {
  const std::string what = database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_);
  const auto make = [&](absl::StatusCode status_code, const char* reason) {
    return Make(status_code, reason, what);
  };
  if (database_ != nullptr && IsFull(code, sqlite3_system_errno(database_))) {
    return make(absl::StatusCode::kResourceExhausted, "_FULL");
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return make(absl::StatusCode::kDataLoss, "_CORRUPT");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make(absl::StatusCode::kFailedPrecondition, "_LOCKED");
    default:
      return make(absl::StatusCode::kUnavailable, "_IO");
  }
}

absl::Status Database::CreateOwn(const std::string& path, Kind kind) {
  // SQLite would let all users read it. Its other files have the same mode.
  const absl::Status opened = OpenOwnFile(path, O_WRONLY | O_CREAT, 0640).status();
  // SQLite reports every other error.
  if (!absl::IsFailedPrecondition(opened)) return absl::OkStatus();
  return Database(path, kind, nullptr)
      .Make(absl::StatusCode::kUnavailable, "_IO", std::string(opened.message()));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Kind kind) {
  return OpenAs(path, InRealFolder(path),
                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW, kind);
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenUnchanging(const std::string& path,
                                                                   Kind kind) {
  const std::string whole = std::filesystem::absolute(path).string();
  const std::string uri = absl::StrCat(
      "file://", absl::StrReplaceAll(whole, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}}),
      "?immutable=1");
  return OpenAs(path, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, kind);
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenAs(const std::string& path,
                                                           const std::string& name, int flags,
                                                           Kind kind) {
  if ((flags & SQLITE_OPEN_CREATE) != 0) RETURN_IF_ERROR(CreateOwn(path, kind));
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(path, kind, handle));
  if (code != SQLITE_OK) return database->Error(code);
  const bool to_write = (flags & SQLITE_OPEN_READWRITE) != 0;
  if (to_write && sqlite3_db_readonly(handle, "main") == 1) return database->NotWritable();
  sqlite3_extended_result_codes(handle, 1);
  return database;
}

Database::~Database() { sqlite3_close(database_); }

absl::Status Database::Lock(const char* settings) {
  RETURN_IF_ERROR(Execute("PRAGMA locking_mode=EXCLUSIVE"));
  RETURN_IF_ERROR(Execute(settings));
  return Execute("BEGIN IMMEDIATE; COMMIT");
}

absl::Status Database::UseWal() {
  std::string mode;
  RETURN_IF_ERROR(
      Query("PRAGMA journal_mode=WAL", {}, [&](sqlite3_stmt* row) { mode = Bytes(row, 0); }));
  return mode == "wal" ? absl::OkStatus() : Error(SQLITE_IOERR);
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<Database::Statement> Database::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return Statement(statement);
}

absl::Status Database::Run(sqlite3_stmt* statement, std::initializer_list<SqlValue> values,
                           absl::FunctionRef<void(sqlite3_stmt*)> visit) {
  int code = SQLITE_OK;
  int index = 0;
  for (const SqlValue& value : values) {
    if (code == SQLITE_OK) code = Bind(statement, ++index, value);
  }
  if (code == SQLITE_OK) {
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) visit(statement);
  }
  const absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : Error(code);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return status;
}

absl::Status Database::Query(const char* sql, std::initializer_list<SqlValue> values,
                             absl::FunctionRef<void(sqlite3_stmt*)> visit) {
  ASSIGN_OR_RETURN(const Statement statement, Prepare(sql));
  return Run(statement.get(), values, visit);
}

std::string Database::Bytes(sqlite3_stmt* row, int column) {
  const void* bytes = sqlite3_column_blob(row, column);
  const int size = sqlite3_column_bytes(row, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

int64_t Database::Number(sqlite3_stmt* row, int column) {
  return sqlite3_column_int64(row, column);
}

}  // namespace remesh::server
