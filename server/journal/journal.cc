// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

constexpr int kVersion = 1;  // of the schema, in user_version

// Resets a statement when its use ends.
class Use {
 public:
  explicit Use(sqlite3_stmt* statement) : statement_(statement) {}
  ~Use() {
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }

 private:
  sqlite3_stmt* statement_;
};

void BindText(sqlite3_stmt* statement, int index, const std::string& text) {
  sqlite3_bind_text64(statement, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

std::string ColumnBytes(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

}  // namespace

absl::Status Journal::Error(int code) const {
  const std::string what = sqlite3_errmsg(database_);
  const ErrorInfo info{.reason = "JOURNAL_IO", .metadata = {{"path", path_}, {"error", what}}};
  const auto make = [&](absl::StatusCode status_code, const char* reason) {
    return MakeError(status_code, absl::StrCat("journal ", path_, ": ", what),
                     {.reason = reason, .metadata = info.metadata});
  };
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return make(absl::StatusCode::kDataLoss, "JOURNAL_CORRUPT");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make(absl::StatusCode::kFailedPrecondition, "JOURNAL_LOCKED");
    case SQLITE_FULL:
      return make(absl::StatusCode::kResourceExhausted, "JOURNAL_FULL");
    default:
      return make(absl::StatusCode::kUnavailable, "JOURNAL_IO");
  }
}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  std::unique_ptr<Journal> journal(new Journal(path, database));
  if (code != SQLITE_OK) return journal->Error(code);
  RETURN_IF_ERROR(journal->Prepare());
  return journal;
}

absl::Status Journal::Prepare() {
  // Locked before anything else is read: two servers on one journal would both decide.
  RETURN_IF_ERROR(Execute("PRAGMA locking_mode=EXCLUSIVE"));
  RETURN_IF_ERROR(Execute("PRAGMA journal_mode=WAL"));
  RETURN_IF_ERROR(Execute("PRAGMA synchronous=FULL"));
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE; COMMIT"));
  RETURN_IF_ERROR(CheckIntegrity());
  RETURN_IF_ERROR(CheckVersion());
  for (const auto& [sql, statement] : {std::pair{"INSERT INTO records(key, bytes) VALUES(?1, ?2) "
                                                 "ON CONFLICT(key) DO UPDATE SET bytes = ?2",
                                                 &put_},
                                       std::pair{"DELETE FROM records WHERE key = ?1", &remove_}}) {
    const int code = sqlite3_prepare_v2(database_, sql, -1, statement, nullptr);
    if (code != SQLITE_OK) return Error(code);
  }
  return absl::OkStatus();
}

absl::Status Journal::CheckIntegrity() {
  ASSIGN_OR_RETURN(const std::string verdict, QueryText("PRAGMA integrity_check(1)"));
  if (verdict == "ok") return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kDataLoss, absl::StrCat("journal ", path_, " is damaged: ", verdict),
      {.reason = "JOURNAL_CORRUPT", .metadata = {{"path", path_}, {"error", verdict}}});
}

absl::Status Journal::CheckVersion() {
  ASSIGN_OR_RETURN(const std::string version, QueryText("PRAGMA user_version"));
  if (version == "0") {
    return Execute(
        "BEGIN IMMEDIATE; CREATE TABLE records(key TEXT PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT "
        "ROWID;"
        "PRAGMA user_version=1; COMMIT");
  }
  if (version == absl::StrCat(kVersion)) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("journal ", path_, " has version ", version, ", this program reads 1"),
      {.reason = "JOURNAL_VERSION", .metadata = {{"path", path_}, {"version", version}}});
}

Journal::~Journal() {
  sqlite3_finalize(put_);
  sqlite3_finalize(remove_);
  sqlite3_close(database_);
}

absl::Status Journal::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<std::string> Journal::QueryText(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  code = sqlite3_step(statement);
  std::string text = code == SQLITE_ROW ? ColumnBytes(statement, 0) : "";
  sqlite3_finalize(statement);
  if (code != SQLITE_ROW) return Error(code);
  return text;
}

absl::StatusOr<std::map<std::string, std::string>> Journal::ReadAll() {
  std::map<std::string, std::string> records;
  sqlite3_stmt* statement = nullptr;
  int code =
      sqlite3_prepare_v2(database_, "SELECT key, bytes FROM records", -1, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    records[ColumnBytes(statement, 0)] = ColumnBytes(statement, 1);
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_DONE) return Error(code);
  return records;
}

absl::Status Journal::WriteRecord(const Record& record) {
  sqlite3_stmt* statement = record.bytes ? put_ : remove_;
  Use use(statement);
  BindText(statement, 1, record.key);
  // A null pointer would be NULL, which is not an empty blob.
  if (record.bytes && record.bytes->empty()) {
    sqlite3_bind_zeroblob(statement, 2, 0);
  } else if (record.bytes) {
    sqlite3_bind_blob64(statement, 2, record.bytes->data(), record.bytes->size(), SQLITE_STATIC);
  }
  const int code = sqlite3_step(statement);
  return code == SQLITE_DONE ? absl::OkStatus() : Error(code);
}

absl::Status Journal::Write(const std::vector<Record>& records) {
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status;
  for (const Record& record : records) {
    status = WriteRecord(record);
    if (!status.ok()) break;
  }
  if (status.ok()) status = Execute("COMMIT");
  if (!status.ok()) Execute("ROLLBACK").IgnoreError();  // the first error is the one to tell
  return status;
}

}  // namespace remesh
