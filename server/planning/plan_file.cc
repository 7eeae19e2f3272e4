// SPDX-License-Identifier: Apache-2.0
#include "server/planning/plan_file.h"

#include <sqlite3.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

// Step i leads from schema version i to i + 1. Steps are added, never changed.
constexpr const char* kMigrations[] = {
    "CREATE TABLE plans(fingerprint TEXT PRIMARY KEY, bytes BLOB NOT NULL, size INTEGER NOT NULL, "
    "compute_seconds REAL NOT NULL, used INTEGER NOT NULL);"
    "CREATE INDEX plans_by_use ON plans(used, size);",
    "CREATE TABLE pins(name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, spec BLOB NOT NULL);"
    "CREATE INDEX pins_by_fingerprint ON pins(fingerprint);"
    "CREATE TABLE set_aside(id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, why TEXT NOT NULL, "
    "bytes BLOB NOT NULL);",
};
constexpr int kVersion = std::size(kMigrations);
constexpr char kUnpinned[] = "fingerprint NOT IN (SELECT fingerprint FROM pins)";

std::string ColumnBytes(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

int Bind(sqlite3_stmt* statement, int index,
         const std::variant<int64_t, double, std::string, const std::string*>& v) {
  if (const int64_t* number = std::get_if<int64_t>(&v)) {
    return sqlite3_bind_int64(statement, index, *number);
  }
  if (const double* number = std::get_if<double>(&v)) {
    return sqlite3_bind_double(statement, index, *number);
  }
  if (const std::string* text = std::get_if<std::string>(&v)) {
    return sqlite3_bind_text64(statement, index, text->data(), text->size(), SQLITE_STATIC,
                               SQLITE_UTF8);
  }
  const std::string& bytes = *std::get<const std::string*>(v);
  return sqlite3_bind_blob64(statement, index, bytes.data(), bytes.size(), SQLITE_STATIC);
}

}  // namespace

absl::Status PlanFile::Error(int code) const {
  const std::string what = database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_);
  const bool damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
  return MakeError(damaged ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnavailable,
                   absl::StrCat("plans in ", path_, ": ", what),
                   {.reason = damaged ? "PLAN_FILE_CORRUPT" : "PLAN_FILE_IO",
                    .metadata = {{"path", path_}, {"error", what}}});
}

absl::StatusOr<std::unique_ptr<PlanFile>> PlanFile::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<PlanFile> file(new PlanFile(path, database));
  if (code != SQLITE_OK) return file->Error(code);
  RETURN_IF_ERROR(file->Prepare());
  return file;
}

PlanFile::~PlanFile() { sqlite3_close(database_); }

absl::Status PlanFile::Prepare() {
  RETURN_IF_ERROR(Execute("PRAGMA locking_mode=EXCLUSIVE"));
  RETURN_IF_ERROR(Execute("PRAGMA journal_mode=WAL"));
  RETURN_IF_ERROR(Execute("PRAGMA synchronous=NORMAL"));
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE; COMMIT"));
  std::string verdict;
  RETURN_IF_ERROR(Query("PRAGMA integrity_check(1)", {},
                        [&](sqlite3_stmt* row) { verdict = ColumnBytes(row, 0); }));
  if (verdict != "ok") {
    return MakeError(
        absl::StatusCode::kDataLoss, absl::StrCat("plans in ", path_, " are damaged: ", verdict),
        {.reason = "PLAN_FILE_CORRUPT", .metadata = {{"path", path_}, {"error", verdict}}});
  }
  return Migrate();
}

absl::Status PlanFile::Migrate() {
  int64_t version = 0;
  RETURN_IF_ERROR(Query("PRAGMA user_version", {},
                        [&](sqlite3_stmt* row) { version = sqlite3_column_int64(row, 0); }));
  if (version < 0 || version > kVersion) {
    return MakeError(absl::StatusCode::kDataLoss,
                     absl::StrCat("plans in ", path_, " have schema version ", version,
                                  ", this program reads ", kVersion),
                     {.reason = "PLAN_FILE_VERSION",
                      .metadata = {{"path", path_}, {"version", absl::StrCat(version)}}});
  }
  for (; version < kVersion; ++version) {
    const std::string sql = absl::StrCat("BEGIN IMMEDIATE;", kMigrations[version],
                                         "PRAGMA user_version=", version + 1, ";COMMIT");
    RETURN_IF_ERROR(Execute(sql.c_str()));
  }
  return absl::OkStatus();
}

absl::Status PlanFile::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::Status PlanFile::Query(const char* sql, const Values& values,
                             absl::FunctionRef<void(sqlite3_stmt*)> visit) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(database_, sql, -1, &raw, nullptr);
  const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
  for (size_t i = 0; i < values.size() && code == SQLITE_OK; ++i) {
    code = Bind(raw, static_cast<int>(i) + 1, values[i]);
  }
  if (code != SQLITE_OK) return Error(code);
  while ((code = sqlite3_step(raw)) == SQLITE_ROW) visit(raw);
  return code == SQLITE_DONE ? absl::OkStatus() : Error(code);
}

absl::StatusOr<std::optional<PlanFile::Row>> PlanFile::Read(const std::string& fingerprint) {
  std::optional<Row> found;
  RETURN_IF_ERROR(Query("SELECT bytes, compute_seconds FROM plans WHERE fingerprint = ?1",
                        {fingerprint}, [&](sqlite3_stmt* row) {
                          found = Row{.bytes = ColumnBytes(row, 0),
                                      .compute_seconds = sqlite3_column_double(row, 1)};
                        }));
  return found;
}

absl::Status PlanFile::Write(const std::string& fingerprint, const Row& row, absl::Time now) {
  return Query("INSERT OR REPLACE INTO plans VALUES(?1, ?2, length(?2), ?3, ?4)",
               {fingerprint, &row.bytes, row.compute_seconds, absl::ToUnixMicros(now)});
}

absl::Status PlanFile::Touch(const std::string& fingerprint, absl::Time now) {
  return Query("UPDATE plans SET used = ?2 WHERE fingerprint = ?1",
               {fingerprint, absl::ToUnixMicros(now)});
}

absl::Status PlanFile::Remove(const std::string& fingerprint) {
  return Query("DELETE FROM plans WHERE fingerprint = ?1", {fingerprint});
}

absl::Status PlanFile::RemoveAll() {
  return Execute(absl::StrCat("DELETE FROM plans WHERE ", kUnpinned).c_str());
}

absl::Status PlanFile::SetAside(const std::string& fingerprint, const std::string& why) {
  RETURN_IF_ERROR(
      Query("INSERT INTO set_aside(fingerprint, why, bytes) SELECT fingerprint, ?2, bytes FROM "
            "plans WHERE fingerprint = ?1",
            {fingerprint, why}));
  RETURN_IF_ERROR(
      Execute("DELETE FROM set_aside WHERE id <= (SELECT max(id) FROM set_aside) - 16"));
  return Remove(fingerprint);
}

absl::Status PlanFile::WritePin(const Pin& pin) {
  return Query("INSERT OR REPLACE INTO pins VALUES(?1, ?2, ?3)",
               {pin.name, pin.fingerprint, &pin.spec});
}

absl::Status PlanFile::RemovePin(const std::string& name) {
  return Query("DELETE FROM pins WHERE name = ?1", {name});
}

absl::StatusOr<std::vector<PlanFile::Pin>> PlanFile::Pins() {
  std::vector<Pin> pins;
  RETURN_IF_ERROR(
      Query("SELECT name, fingerprint, spec FROM pins ORDER BY name", {}, [&](sqlite3_stmt* row) {
        pins.push_back({ColumnBytes(row, 0), ColumnBytes(row, 1), ColumnBytes(row, 2)});
      }));
  return pins;
}

absl::StatusOr<int64_t> PlanFile::Trim(const Limits& limits, absl::Time now) {
  RETURN_IF_ERROR(Query(absl::StrCat("DELETE FROM plans WHERE used < ?1 AND ", kUnpinned).c_str(),
                        {absl::ToUnixMicros(now - limits.age_max)}));
  int64_t removed = sqlite3_changes64(database_);
  ASSIGN_OR_RETURN(Size now_held, size());
  const std::string oldest = absl::StrCat("SELECT fingerprint, size FROM plans WHERE ", kUnpinned,
                                          " ORDER BY used LIMIT 1");
  while (now_held.entries > limits.entries_max || now_held.bytes > limits.bytes_max) {
    std::string fingerprint;
    int64_t bytes = 0;
    RETURN_IF_ERROR(Query(oldest.c_str(), {}, [&](sqlite3_stmt* row) {
      fingerprint = ColumnBytes(row, 0);
      bytes = sqlite3_column_int64(row, 1);
    }));
    if (fingerprint.empty()) break;  // the rest is pinned
    RETURN_IF_ERROR(Remove(fingerprint));
    --now_held.entries;
    now_held.bytes -= bytes;
    ++removed;
  }
  return removed;
}

absl::StatusOr<PlanFile::Size> PlanFile::size() {
  Size size;
  RETURN_IF_ERROR(Query("SELECT count(*), total(size) FROM plans", {}, [&](sqlite3_stmt* row) {
    size = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)};
  }));
  return size;
}

}  // namespace remesh
