// SPDX-License-Identifier: Apache-2.0
#include "server/cache/plan_file.h"

#include <sqlite3.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
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

// Names made ahead that no caller has asked for, and how much of them each caller has. They are
// kept in memory; names that go, or are asked for, leave by themselves.
constexpr char kAheadTables[] =
    "PRAGMA temp_store=MEMORY;"
    "CREATE TEMP TABLE ahead(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
    "caller TEXT NOT NULL, size INTEGER NOT NULL);"
    "CREATE INDEX temp.ahead_by_caller ON ahead(caller, id);"
    "CREATE TEMP TABLE ahead_callers(caller TEXT PRIMARY KEY, names INTEGER NOT NULL, "
    "size INTEGER NOT NULL);"
    "CREATE TEMP TRIGGER ahead_made AFTER INSERT ON ahead BEGIN "
    "INSERT OR IGNORE INTO ahead_callers VALUES(NEW.caller, 0, 0);"
    "UPDATE ahead_callers SET names = names + 1, size = size + NEW.size "
    "WHERE caller = NEW.caller; END;"
    "CREATE TEMP TRIGGER ahead_gone AFTER DELETE ON ahead BEGIN "
    "UPDATE ahead_callers SET names = names - 1, size = size - OLD.size "
    "WHERE caller = OLD.caller;"
    "DELETE FROM ahead_callers WHERE caller = OLD.caller AND names = 0; END;"
    "CREATE TEMP TRIGGER name_gone AFTER DELETE ON main.names BEGIN "
    "DELETE FROM ahead WHERE name = OLD.name; END;"
    "CREATE TEMP TRIGGER name_asked_for AFTER UPDATE OF hits ON main.names WHEN NEW.hits > 0 BEGIN "
    "DELETE FROM ahead WHERE name = NEW.name; END";
constexpr int64_t kPartsForAhead = 4;  // what is made ahead for a caller may take one of them
constexpr char kUnpinned[] = "fingerprint NOT IN (SELECT fingerprint FROM names WHERE pinned = 1)";

constexpr char kNameColumns[] =
    "name, fingerprint, about, created, used, hits, pinned, size + (SELECT coalesce(sum(size), 0) "
    "FROM plans WHERE plans.fingerprint = names.fingerprint)";

// Reads a row with the columns above; a spec may follow.
PlanFile::Name NameOf(sqlite3_stmt* row) {
  PlanFile::Name name{.name = Database::Bytes(row, 0),
                      .fingerprint = Database::Bytes(row, 1),
                      .spec = "",
                      .about = Database::Bytes(row, 2),
                      .created = absl::FromUnixMicros(Database::Number(row, 3)),
                      .used = absl::FromUnixMicros(Database::Number(row, 4)),
                      .hits = Database::Number(row, 5),
                      .pinned = Database::Number(row, 6) != 0,
                      .bytes = Database::Number(row, 7)};
  if (sqlite3_column_count(row) > 8) name.spec = Database::Bytes(row, 8);
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanFile>> PlanFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(path, {.name = "plans in", .reason_prefix = "PLAN_FILE"}));
  std::unique_ptr<PlanFile> file(new PlanFile(std::move(database)));
  RETURN_IF_ERROR(file->Prepare());
  return file;
}

absl::Status PlanFile::Prepare() {
  RETURN_IF_ERROR(database_->Lock("PRAGMA synchronous=NORMAL"));
  RETURN_IF_ERROR(database_->UseWal());
  const std::string& path = database_->path();
  std::string verdict;
  RETURN_IF_ERROR(database_->Query("PRAGMA integrity_check(1)", {},
                                   [&](sqlite3_stmt* row) { verdict = Database::Bytes(row, 0); }));
  if (verdict != "ok") {
    return MakeError(
        absl::StatusCode::kDataLoss, absl::StrCat("plans in ", path, " are damaged: ", verdict),
        {.reason = "PLAN_FILE_CORRUPT", .metadata = {{"path", path}, {"error", verdict}}});
  }
  return Migrate();
}

absl::Status PlanFile::Migrate() {
  const std::string& path = database_->path();
  int64_t version = 0;
  RETURN_IF_ERROR(database_->Query("PRAGMA user_version", {},
                                   [&](sqlite3_stmt* row) { version = Database::Number(row, 0); }));
  if (version < 0 || version > kVersion) {
    return MakeError(absl::StatusCode::kDataLoss,
                     absl::StrCat("plans in ", path, " have schema version ", version,
                                  ", this program reads ", kVersion),
                     {.reason = "PLAN_FILE_VERSION",
                      .metadata = {{"path", path}, {"version", absl::StrCat(version)}}});
  }
  for (; version < kVersion; ++version) {
    const std::string sql = absl::StrCat("BEGIN IMMEDIATE;", kMigrations[version],
                                         "PRAGMA user_version=", version + 1, ";COMMIT");
    RETURN_IF_ERROR(database_->Execute(sql.c_str()));
  }
  return database_->Execute(kAheadTables);
}

absl::StatusOr<std::optional<PlanFile::Row>> PlanFile::Read(const std::string& fingerprint) {
  std::optional<Row> found;
  RETURN_IF_ERROR(database_->Query(
      "SELECT bytes, compute_seconds FROM plans WHERE fingerprint = ?1", {fingerprint},
      [&](sqlite3_stmt* row) {
        found =
            Row{.bytes = Database::Bytes(row, 0), .compute_seconds = sqlite3_column_double(row, 1)};
      }));
  return found;
}

absl::StatusOr<bool> PlanFile::Has(const std::string& fingerprint) {
  bool found = false;
  RETURN_IF_ERROR(database_->Query("SELECT 1 FROM plans WHERE fingerprint = ?1", {fingerprint},
                                   [&](sqlite3_stmt*) { found = true; }));
  return found;
}

absl::Status PlanFile::Write(const std::string& fingerprint, const Row& row, absl::Time now) {
  return database_->Query(
      "INSERT OR REPLACE INTO plans VALUES(?1, ?2, length(?2), ?3, ?4)",
      {fingerprint, SqlBytes{row.bytes}, row.compute_seconds, absl::ToUnixMicros(now)});
}

absl::Status PlanFile::Touch(const std::string& fingerprint, absl::Time now) {
  return database_->Query("UPDATE plans SET used = ?2 WHERE fingerprint = ?1",
                          {fingerprint, absl::ToUnixMicros(now)});
}

absl::Status PlanFile::SetAside(const std::string& fingerprint, const std::string& why,
                                std::vector<Evicted>& evicted) {
  RETURN_IF_ERROR(database_->Query(
      "INSERT INTO set_aside(fingerprint, why, bytes) SELECT fingerprint, ?2, bytes FROM "
      "plans WHERE fingerprint = ?1",
      {fingerprint, why}));
  RETURN_IF_ERROR(
      database_->Execute("DELETE FROM set_aside WHERE id <= (SELECT max(id) FROM set_aside) - 16"));
  RETURN_IF_ERROR(RemoveNames("fingerprint = ?1 AND pinned = 0", {fingerprint},
                              EvictionCause::kCorrupt, evicted));
  return database_->Query("DELETE FROM plans WHERE fingerprint = ?1", {fingerprint});
}

absl::Status PlanFile::WriteName(const Name& name) {
  RETURN_IF_ERROR(database_->Query(
      "INSERT OR REPLACE INTO names VALUES(?1, ?2, ?3, ?4, length(?3) + length(?4), ?5, ?6, ?7, "
      "?8)",
      {name.name, name.fingerprint, SqlBytes{name.spec}, SqlBytes{name.about},
       absl::ToUnixMicros(name.created), absl::ToUnixMicros(name.used), name.hits,
       int64_t{name.pinned}}));
  RETURN_IF_ERROR(database_->Query("DELETE FROM ahead WHERE name = ?1", {name.name}));
  if (name.ahead_of.empty() || name.hits > 0 || name.pinned) return absl::OkStatus();
  return database_->Query(
      "INSERT INTO ahead(name, caller, size) SELECT name, ?2, size + (SELECT coalesce(sum(size), "
      "0) FROM plans WHERE plans.fingerprint = names.fingerprint) FROM names WHERE name = ?1",
      {name.name, name.ahead_of});
}

absl::Status PlanFile::UpdateName(const Name& name) {
  RETURN_IF_ERROR(database_->Query(
      "UPDATE names SET about = ?2, size = length(spec) + length(?2), used = ?3, "
      "hits = ?4 WHERE name = ?1",
      {name.name, SqlBytes{name.about}, absl::ToUnixMicros(name.used), name.hits}));
  return Touch(name.fingerprint, name.used);
}

absl::StatusOr<std::optional<PlanFile::Name>> PlanFile::ReadName(const std::string& name) {
  std::optional<Name> found;
  RETURN_IF_ERROR(database_->Query(
      absl::StrCat("SELECT ", kNameColumns, ", spec FROM names WHERE name = ?1").c_str(), {name},
      [&](sqlite3_stmt* row) { found = NameOf(row); }));
  return found;
}

absl::StatusOr<bool> PlanFile::RemoveName(const std::string& name) {
  std::string fingerprint;
  RETURN_IF_ERROR(
      database_->Query("DELETE FROM names WHERE name = ?1 RETURNING fingerprint", {name},
                       [&](sqlite3_stmt* row) { fingerprint = Database::Bytes(row, 0); }));
  if (fingerprint.empty()) return false;
  RETURN_IF_ERROR(RemoveUnnamed(fingerprint));
  return true;
}

absl::Status PlanFile::RemoveUnnamed(const std::string& fingerprint) {
  return database_->Query(
      "DELETE FROM plans WHERE fingerprint = ?1 AND fingerprint NOT IN (SELECT fingerprint "
      "FROM names)",
      {fingerprint});
}

absl::Status PlanFile::SetPinned(const std::string& name, bool pinned) {
  return database_->Query("UPDATE names SET pinned = ?2 WHERE name = ?1", {name, int64_t{pinned}});
}

absl::StatusOr<std::vector<PlanFile::Name>> PlanFile::PinnedNames() {
  std::vector<Name> names;
  const std::string sql =
      absl::StrCat("SELECT ", kNameColumns, ", spec FROM names WHERE pinned = 1 ORDER BY name");
  RETURN_IF_ERROR(
      database_->Query(sql.c_str(), {}, [&](sqlite3_stmt* row) { names.push_back(NameOf(row)); }));
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
  RETURN_IF_ERROR(database_->Query(sql.c_str(), {absl::ToUnixMicros(created), name, count},
                                   [&](sqlite3_stmt* row) { names.push_back(NameOf(row)); }));
  return names;
}

absl::Status PlanFile::RemoveNames(const std::string& condition,
                                   std::initializer_list<SqlValue> values, EvictionCause cause,
                                   std::vector<Evicted>& evicted) {
  return database_->Query(
      absl::StrCat("DELETE FROM names WHERE ", condition, " RETURNING name, about").c_str(), values,
      [&](sqlite3_stmt* row) {
        evicted.push_back(
            {.name = Database::Bytes(row, 0), .about = Database::Bytes(row, 1), .cause = cause});
      });
}

absl::StatusOr<std::vector<Evicted>> PlanFile::RemoveAll(const std::vector<std::string>& kept) {
  std::vector<Evicted> evicted;
  RETURN_IF_ERROR(database_->Execute("CREATE TEMP TABLE kept(name TEXT PRIMARY KEY)"));
  absl::Status status;
  for (size_t i = 0; i < kept.size() && status.ok(); ++i) {
    status = database_->Query("INSERT OR IGNORE INTO kept VALUES(?1)", {kept[i]});
  }
  if (status.ok()) {
    status = RemoveNames("pinned = 0 AND name NOT IN (SELECT name FROM kept)", {},
                         EvictionCause::kFlushed, evicted);
  }
  RETURN_IF_ERROR(database_->Execute("DROP TABLE kept"));
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(database_->Execute(
      "DELETE FROM plans WHERE fingerprint NOT IN (SELECT fingerprint FROM names)"));
  return evicted;
}

absl::StatusOr<bool> PlanFile::RemoveAhead(const Limits& limits, EvictionCause cause,
                                           std::vector<Evicted>& evicted) {
  std::string name, fingerprint;
  RETURN_IF_ERROR(database_->Query(
      "SELECT name, fingerprint FROM names WHERE name = (SELECT name FROM ahead WHERE caller = "
      "(SELECT caller FROM ahead_callers WHERE names > ?1 OR size > ?2 LIMIT 1) "
      "ORDER BY id LIMIT 1)",
      {limits.max_entries / kPartsForAhead, limits.max_bytes / kPartsForAhead},
      [&](sqlite3_stmt* row) {
        name = Database::Bytes(row, 0);
        fingerprint = Database::Bytes(row, 1);
      }));
  if (name.empty()) return false;
  RETURN_IF_ERROR(RemoveNames("name = ?1", {name}, cause, evicted));
  RETURN_IF_ERROR(RemoveUnnamed(fingerprint));
  return true;
}

absl::StatusOr<bool> PlanFile::RemoveOldest(EvictionCause cause, std::vector<Evicted>& evicted) {
  std::string name, fingerprint;
  int64_t name_used = 0, plan_used = 0;
  RETURN_IF_ERROR(
      database_->Query("SELECT name, used FROM names WHERE pinned = 0 ORDER BY used LIMIT 1", {},
                       [&](sqlite3_stmt* row) {
                         name = Database::Bytes(row, 0);
                         name_used = Database::Number(row, 1);
                       }));
  RETURN_IF_ERROR(database_->Query(absl::StrCat("SELECT fingerprint, used FROM plans WHERE ",
                                                kUnpinned, " ORDER BY used LIMIT 1")
                                       .c_str(),
                                   {}, [&](sqlite3_stmt* row) {
                                     fingerprint = Database::Bytes(row, 0);
                                     plan_used = Database::Number(row, 1);
                                   }));
  if (name.empty() && fingerprint.empty()) return false;
  if (fingerprint.empty() || (!name.empty() && name_used < plan_used)) {
    RETURN_IF_ERROR(RemoveNames("name = ?1", {name}, cause, evicted));
    return true;
  }
  const size_t before = evicted.size();
  RETURN_IF_ERROR(RemoveNames("fingerprint = ?1", {fingerprint}, cause, evicted));
  if (evicted.size() == before) evicted.push_back({.name = "", .about = "", .cause = cause});
  RETURN_IF_ERROR(database_->Query("DELETE FROM plans WHERE fingerprint = ?1", {fingerprint}));
  return true;
}

absl::StatusOr<std::vector<Evicted>> PlanFile::Trim(const Limits& limits, absl::Time now) {
  std::vector<Evicted> evicted;
  const int64_t oldest = absl::ToUnixMicros(now - limits.max_age);
  RETURN_IF_ERROR(RemoveNames("pinned = 0 AND used < ?1", {oldest}, EvictionCause::kAge, evicted));
  RETURN_IF_ERROR(database_->Query(
      absl::StrCat("DELETE FROM plans WHERE used < ?1 AND ", kUnpinned).c_str(), {oldest}));
  while (true) {
    ASSIGN_OR_RETURN(const Size held, size());
    const bool bytes = held.bytes > limits.max_bytes;
    if (!bytes && held.plans <= limits.max_entries && held.names <= limits.max_entries) break;
    const EvictionCause cause = bytes ? EvictionCause::kBytes : EvictionCause::kEntries;
    ASSIGN_OR_RETURN(bool removed, RemoveAhead(limits, cause, evicted));
    if (!removed) {
      ASSIGN_OR_RETURN(removed, RemoveOldest(cause, evicted));
    }
    if (!removed) break;  // everything left is pinned
  }
  return evicted;
}

absl::StatusOr<PlanFile::Size> PlanFile::size() {
  Size size;
  RETURN_IF_ERROR(
      database_->Query("SELECT count(*), total(size) FROM plans", {}, [&](sqlite3_stmt* row) {
        size.plans = Database::Number(row, 0);
        size.bytes = Database::Number(row, 1);
      }));
  RETURN_IF_ERROR(
      database_->Query("SELECT count(*), total(size) FROM names", {}, [&](sqlite3_stmt* row) {
        size.names = Database::Number(row, 0);
        size.bytes += Database::Number(row, 1);
      }));
  RETURN_IF_ERROR(
      database_->Query("SELECT count(*) FROM names WHERE pinned = 1", {},
                       [&](sqlite3_stmt* row) { size.pinned = Database::Number(row, 0); }));
  return size;
}

}  // namespace remesh::server
