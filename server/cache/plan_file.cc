// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_file.h"

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
    "CREATE TABLE names(name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, spec BLOB NOT NULL, "
    "about BLOB NOT NULL, size INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL, "
    "hits INTEGER NOT NULL, pinned INTEGER NOT NULL);"
    "INSERT INTO names SELECT name, fingerprint, spec, x'', length(spec), 0, 0, 0, 1 FROM pins;"
    "DROP TABLE pins;"
    "CREATE INDEX names_by_fingerprint ON names(fingerprint);"
    "CREATE INDEX names_by_creation ON names(created DESC, name);"
    "CREATE INDEX names_by_use ON names(pinned, used);"
    "CREATE INDEX names_by_size ON names(size);",
};
constexpr int kVersion = std::size(kMigrations);
constexpr char kUnpinned[] = "fingerprint NOT IN (SELECT fingerprint FROM names WHERE pinned = 1)";

std::string ColumnBytes(sqlite3_stmt* statement, int column) {
  const void* bytes = sqlite3_column_blob(statement, column);
  const int size = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

constexpr char kNameColumns[] =
    "name, fingerprint, about, created, used, hits, pinned, size + (SELECT coalesce(sum(size), 0) "
    "FROM plans WHERE plans.fingerprint = names.fingerprint)";

// Of the columns above; a spec may follow.
PlanFile::Name NameOf(sqlite3_stmt* row) {
  PlanFile::Name name{.name = ColumnBytes(row, 0),
                      .fingerprint = ColumnBytes(row, 1),
                      .spec = "",
                      .about = ColumnBytes(row, 2),
                      .created = absl::FromUnixMicros(sqlite3_column_int64(row, 3)),
                      .used = absl::FromUnixMicros(sqlite3_column_int64(row, 4)),
                      .hits = sqlite3_column_int64(row, 5),
                      .pinned = sqlite3_column_int64(row, 6) != 0,
                      .bytes = sqlite3_column_int64(row, 7)};
  if (sqlite3_column_count(row) > 8) name.spec = ColumnBytes(row, 8);
  return name;
}

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

absl::StatusOr<bool> PlanFile::Has(const std::string& fingerprint) {
  bool found = false;
  RETURN_IF_ERROR(Query("SELECT 1 FROM plans WHERE fingerprint = ?1", {fingerprint},
                        [&](sqlite3_stmt*) { found = true; }));
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

absl::Status PlanFile::SetAside(const std::string& fingerprint, const std::string& why,
                                std::vector<Evicted>& evicted) {
  RETURN_IF_ERROR(
      Query("INSERT INTO set_aside(fingerprint, why, bytes) SELECT fingerprint, ?2, bytes FROM "
            "plans WHERE fingerprint = ?1",
            {fingerprint, why}));
  RETURN_IF_ERROR(
      Execute("DELETE FROM set_aside WHERE id <= (SELECT max(id) FROM set_aside) - 16"));
  RETURN_IF_ERROR(RemoveNames("fingerprint = ?1 AND pinned = 0", {fingerprint},
                              EvictionCause::kCorrupt, evicted));
  return Query("DELETE FROM plans WHERE fingerprint = ?1", {fingerprint});
}

absl::Status PlanFile::WriteName(const Name& name) {
  return Query(
      "INSERT OR REPLACE INTO names VALUES(?1, ?2, ?3, ?4, length(?3) + length(?4), ?5, ?6, ?7, "
      "?8)",
      {name.name, name.fingerprint, &name.spec, &name.about, absl::ToUnixMicros(name.created),
       absl::ToUnixMicros(name.used), name.hits, int64_t{name.pinned}});
}

absl::Status PlanFile::UpdateName(const Name& name) {
  RETURN_IF_ERROR(
      Query("UPDATE names SET about = ?2, size = length(spec) + length(?2), used = ?3, "
            "hits = ?4 WHERE name = ?1",
            {name.name, &name.about, absl::ToUnixMicros(name.used), name.hits}));
  return Touch(name.fingerprint, name.used);
}

absl::StatusOr<std::optional<PlanFile::Name>> PlanFile::ReadName(const std::string& name) {
  std::optional<Name> found;
  RETURN_IF_ERROR(
      Query(absl::StrCat("SELECT ", kNameColumns, ", spec FROM names WHERE name = ?1").c_str(),
            {name}, [&](sqlite3_stmt* row) { found = NameOf(row); }));
  return found;
}

absl::StatusOr<bool> PlanFile::RemoveName(const std::string& name) {
  std::string fingerprint;
  RETURN_IF_ERROR(Query("DELETE FROM names WHERE name = ?1 RETURNING fingerprint", {name},
                        [&](sqlite3_stmt* row) { fingerprint = ColumnBytes(row, 0); }));
  if (fingerprint.empty()) return false;
  RETURN_IF_ERROR(
      Query("DELETE FROM plans WHERE fingerprint = ?1 AND fingerprint NOT IN (SELECT fingerprint "
            "FROM names)",
            {fingerprint}));
  return true;
}

absl::Status PlanFile::SetPinned(const std::string& name, bool pinned) {
  return Query("UPDATE names SET pinned = ?2 WHERE name = ?1", {name, int64_t{pinned}});
}

absl::StatusOr<std::vector<PlanFile::Name>> PlanFile::PinnedNames() {
  std::vector<Name> names;
  const std::string sql =
      absl::StrCat("SELECT ", kNameColumns, ", spec FROM names WHERE pinned = 1 ORDER BY name");
  RETURN_IF_ERROR(Query(sql.c_str(), {}, [&](sqlite3_stmt* row) { names.push_back(NameOf(row)); }));
  return names;
}

absl::StatusOr<std::vector<PlanFile::Name>> PlanFile::NamesAfter(absl::Time created,
                                                                 const std::string& name,
                                                                 int64_t count) {
  std::vector<Name> names;
  const std::string sql = absl::StrCat(
      "SELECT ", kNameColumns,
      " FROM names WHERE created < ?1 OR (created = ?1 AND name > ?2) ORDER BY created "
      "DESC, name LIMIT ?3");
  RETURN_IF_ERROR(Query(sql.c_str(), {absl::ToUnixMicros(created), name, count},
                        [&](sqlite3_stmt* row) { names.push_back(NameOf(row)); }));
  return names;
}

absl::Status PlanFile::RemoveNames(const std::string& condition, const Values& values,
                                   EvictionCause cause, std::vector<Evicted>& evicted) {
  return Query(
      absl::StrCat("DELETE FROM names WHERE ", condition, " RETURNING name, about").c_str(), values,
      [&](sqlite3_stmt* row) {
        evicted.push_back(
            {.name = ColumnBytes(row, 0), .about = ColumnBytes(row, 1), .cause = cause});
      });
}

absl::StatusOr<std::vector<Evicted>> PlanFile::RemoveAll(const std::vector<std::string>& kept) {
  std::vector<Evicted> evicted;
  RETURN_IF_ERROR(Execute("CREATE TEMP TABLE kept(name TEXT PRIMARY KEY)"));
  absl::Status status;
  for (size_t i = 0; i < kept.size() && status.ok(); ++i) {
    status = Query("INSERT OR IGNORE INTO kept VALUES(?1)", {kept[i]});
  }
  if (status.ok()) {
    status = RemoveNames("pinned = 0 AND name NOT IN (SELECT name FROM kept)", {},
                         EvictionCause::kFlushed, evicted);
  }
  RETURN_IF_ERROR(Execute("DROP TABLE kept"));
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(
      Execute("DELETE FROM plans WHERE fingerprint NOT IN (SELECT fingerprint FROM names)"));
  return evicted;
}

absl::StatusOr<bool> PlanFile::RemoveOldest(EvictionCause cause, std::vector<Evicted>& evicted) {
  std::string name, fingerprint;
  int64_t name_used = 0, plan_used = 0;
  RETURN_IF_ERROR(Query("SELECT name, used FROM names WHERE pinned = 0 ORDER BY used LIMIT 1", {},
                        [&](sqlite3_stmt* row) {
                          name = ColumnBytes(row, 0);
                          name_used = sqlite3_column_int64(row, 1);
                        }));
  RETURN_IF_ERROR(Query(absl::StrCat("SELECT fingerprint, used FROM plans WHERE ", kUnpinned,
                                     " ORDER BY used LIMIT 1")
                            .c_str(),
                        {}, [&](sqlite3_stmt* row) {
                          fingerprint = ColumnBytes(row, 0);
                          plan_used = sqlite3_column_int64(row, 1);
                        }));
  if (name.empty() && fingerprint.empty()) return false;
  if (fingerprint.empty() || (!name.empty() && name_used < plan_used)) {
    RETURN_IF_ERROR(RemoveNames("name = ?1", {name}, cause, evicted));
    return true;
  }
  const size_t before = evicted.size();
  RETURN_IF_ERROR(RemoveNames("fingerprint = ?1", {fingerprint}, cause, evicted));
  if (evicted.size() == before) evicted.push_back({.name = "", .about = "", .cause = cause});
  RETURN_IF_ERROR(Query("DELETE FROM plans WHERE fingerprint = ?1", {fingerprint}));
  return true;
}

absl::StatusOr<std::vector<Evicted>> PlanFile::Trim(const Limits& limits, absl::Time now) {
  std::vector<Evicted> evicted;
  const int64_t oldest = absl::ToUnixMicros(now - limits.max_age);
  RETURN_IF_ERROR(RemoveNames("pinned = 0 AND used < ?1", {oldest}, EvictionCause::kAge, evicted));
  RETURN_IF_ERROR(
      Query(absl::StrCat("DELETE FROM plans WHERE used < ?1 AND ", kUnpinned).c_str(), {oldest}));
  while (true) {
    ASSIGN_OR_RETURN(const Size held, size());
    const bool bytes = held.bytes > limits.max_bytes;
    if (!bytes && held.plans <= limits.max_entries && held.names <= limits.max_entries) break;
    ASSIGN_OR_RETURN(
        const bool removed,
        RemoveOldest(bytes ? EvictionCause::kBytes : EvictionCause::kEntries, evicted));
    if (!removed) break;  // the rest is pinned
  }
  return evicted;
}

absl::StatusOr<PlanFile::Size> PlanFile::size() {
  Size size;
  RETURN_IF_ERROR(Query("SELECT count(*), total(size) FROM plans", {}, [&](sqlite3_stmt* row) {
    size.plans = sqlite3_column_int64(row, 0);
    size.bytes = sqlite3_column_int64(row, 1);
  }));
  RETURN_IF_ERROR(Query("SELECT count(*), total(size) FROM names", {}, [&](sqlite3_stmt* row) {
    size.names = sqlite3_column_int64(row, 0);
    size.bytes += sqlite3_column_int64(row, 1);
  }));
  RETURN_IF_ERROR(Query("SELECT count(*) FROM names WHERE pinned = 1", {},
                        [&](sqlite3_stmt* row) { size.pinned = sqlite3_column_int64(row, 0); }));
  return size;
}

}  // namespace remesh
