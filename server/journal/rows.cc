// SPDX-License-Identifier: Apache-2.0
#include "server/journal/rows.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

// In the order of the tables' names.
constexpr const char* kTables[] = {
    "CREATE TABLE head(id INTEGER PRIMARY KEY, journal_uid TEXT NOT NULL, cluster_uid TEXT NOT "
    "NULL, leadership TEXT NOT NULL, sequence INTEGER NOT NULL, rows BLOB NOT NULL, digest BLOB "
    "NOT NULL)",
    "CREATE TABLE leaderships(id TEXT PRIMARY KEY, first INTEGER NOT NULL, started TEXT NOT NULL, "
    "digest BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE records(key TEXT PRIMARY KEY, bytes BLOB NOT NULL, digest BLOB NOT NULL) WITHOUT "
    "ROWID",
};

absl::Status Corrupt(const Database& database, const std::string& what) {
  return MakeError(
      absl::StatusCode::kDataLoss, absl::StrCat("journal ", database.path(), " is damaged: ", what),
      {.reason = "JOURNAL_CORRUPT", .metadata = {{"path", database.path()}, {"error", what}}});
}

absl::Status OtherVersion(const Database& database, const std::string& version) {
  const char* hint =
      version == "1" ? ", which earlier releases of remesh-server wrote and read" : "";
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("journal ", database.path(), " has version ", version, hint,
                   "; this program reads ", kOldJournalVersion, " and ", kJournalVersion),
      {.reason = "JOURNAL_VERSION", .metadata = {{"path", database.path()}, {"version", version}}});
}

absl::StatusOr<std::vector<std::string>> ReadTexts(Database& database, const char* sql) {
  std::vector<std::string> texts;
  RETURN_IF_ERROR(database.Query(
      sql, {}, [&](sqlite3_stmt* row) { texts.push_back(Database::Bytes(row, 0)); }));
  return texts;
}

absl::Status CheckPages(Database& database) {
  ASSIGN_OR_RETURN(const std::vector<std::string> verdict,
                   ReadTexts(database, "PRAGMA integrity_check(1)"));
  if (verdict.size() == 1 && verdict[0] == "ok") return absl::OkStatus();
  return Corrupt(database, verdict.empty() ? "no verdict" : verdict[0]);
}

// False: the database has no tables.
absl::StatusOr<bool> CheckTables(Database& database) {
  ASSIGN_OR_RETURN(const std::vector<std::string> version,
                   ReadTexts(database, "PRAGMA user_version"));
  ASSIGN_OR_RETURN(const std::vector<std::string> tables,
                   ReadTexts(database, "SELECT sql FROM sqlite_schema ORDER BY name"));
  if (version == std::vector<std::string>{"0"} && tables.empty()) return false;
  const bool ours = tables == std::vector<std::string>(std::begin(kTables), std::end(kTables));
  if (version == std::vector{absl::StrCat(kJournalVersion)} ||
      version == std::vector{absl::StrCat(kOldJournalVersion)}) {
    if (ours) return true;
    return Corrupt(database, "its tables are not those of a journal");
  }
  // One flipped bit turns a version into 0, which must not pass for an empty file.
  if (version.empty() || version[0] == "0") {
    return Corrupt(database, "it has tables but no version");
  }
  return OtherVersion(database, version[0]);
}

// No digest covers the key. A row with another one would stay beside the row that commits write.
absl::Status CheckHeadKeys(Database& database) {
  std::optional<int64_t> other;
  RETURN_IF_ERROR(database.Query("SELECT id FROM head WHERE id <> 1", {},
                                 [&](sqlite3_stmt* row) { other = Database::Number(row, 0); }));
  if (!other) return absl::OkStatus();
  return Corrupt(database, absl::StrCat("its head has a row ", *other, ", where only 1 may be"));
}

absl::StatusOr<HeadRow> ReadHeadRow(Database& database) {
  HeadRow head;
  int count = 0;
  RowDigest digest;
  RETURN_IF_ERROR(CheckHeadKeys(database));
  RETURN_IF_ERROR(database.Query(
      "SELECT journal_uid, cluster_uid, leadership, sequence, rows, digest FROM head WHERE id = 1",
      {}, [&](sqlite3_stmt* row) {
        ++count;
        head = {.journal_uid = Database::Bytes(row, 0),
                .cluster_uid = Database::Bytes(row, 1),
                .leadership = Database::Bytes(row, 2),
                .sequence = static_cast<uint64_t>(Database::Number(row, 3)),
                .rows = RowDigest::FromBytes(Database::Bytes(row, 4))};
        digest = RowDigest::FromBytes(Database::Bytes(row, 5));
      }));
  if (count == 1 && digest == head.Digest()) return head;
  return Corrupt(database, "its head row's digest differs");
}

absl::StatusOr<std::vector<LeadershipRow>> ReadLeaderships(Database& database) {
  std::vector<LeadershipRow> leaderships;
  std::string damaged;
  RETURN_IF_ERROR(database.Query(
      "SELECT id, first, started, digest FROM leaderships ORDER BY first", {},
      [&](sqlite3_stmt* row) {
        leaderships.push_back({.id = Database::Bytes(row, 0),
                               .first = static_cast<uint64_t>(Database::Number(row, 1)),
                               .started = Database::Bytes(row, 2)});
        const LeadershipRow& read = leaderships.back();
        if (RowDigest::FromBytes(Database::Bytes(row, 3)) != read.Digest()) damaged = read.id;
      }));
  if (damaged.empty()) return leaderships;
  return Corrupt(database, absl::StrCat("the digest of leadership ", damaged, " differs"));
}

absl::Status VisitRecords(Database& database,
                          absl::FunctionRef<void(std::string key, std::string bytes)> visit) {
  std::optional<std::string> damaged;
  RETURN_IF_ERROR(
      database.Query("SELECT key, bytes, digest FROM records", {}, [&](sqlite3_stmt* row) {
        std::string key = Database::Bytes(row, 0), bytes = Database::Bytes(row, 1);
        const bool right =
            RowDigest::FromBytes(Database::Bytes(row, 2)) == RecordDigest(key, bytes);
        if (!right && !damaged) damaged = key;
        visit(std::move(key), std::move(bytes));
      }));
  if (!damaged) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kDataLoss,
      absl::StrCat("journal ", database.path(), " is damaged: the digest of key \"", *damaged,
                   "\" differs"),
      {.reason = "JOURNAL_CORRUPT", .metadata = {{"path", database.path()}, {"key", *damaged}}});
}

}  // namespace

RowDigest HeadRow::Digest() const {
  return RowDigest::Of(
      {"head", journal_uid, cluster_uid, leadership, absl::StrCat(sequence), rows.Bytes()});
}

RowDigest LeadershipRow::Digest() const {
  return RowDigest::Of({"leaderships", id, absl::StrCat(first), started});
}

RowDigest RecordDigest(std::string_view key, std::string_view bytes) {
  return RowDigest::Of({"records", key, bytes});
}

absl::StatusOr<std::optional<JournalContents>> ReadContents(Database& database) {
  RETURN_IF_ERROR(CheckPages(database));
  ASSIGN_OR_RETURN(const bool has_tables, CheckTables(database));
  if (!has_tables) return std::nullopt;
  JournalContents contents;
  ASSIGN_OR_RETURN(contents.head, ReadHeadRow(database));
  ASSIGN_OR_RETURN(contents.leaderships, ReadLeaderships(database));
  RowDigest rows;
  for (const LeadershipRow& leadership : contents.leaderships) rows ^= leadership.Digest();
  RETURN_IF_ERROR(VisitRecords(database, [&](const std::string& key, const std::string& bytes) {
    rows ^= RecordDigest(key, bytes);
  }));
  if (rows == contents.head.rows) return contents;
  return Corrupt(database, "some of its rows are missing, or from another time than its head row");
}

absl::Status WriteHeadRow(Database& database, sqlite3_stmt* statement, const HeadRow& head) {
  const std::string rows = head.rows.Bytes(), digest = head.Digest().Bytes();
  return database.Run(
      statement, {SqlText{head.journal_uid}, SqlText{head.cluster_uid}, SqlText{head.leadership},
                  static_cast<int64_t>(head.sequence), SqlBytes{rows}, SqlBytes{digest}});
}

absl::Status RaiseVersion(Database& database) {
  return database.Execute(absl::StrCat("PRAGMA user_version=", kJournalVersion).c_str());
}

absl::Status CreateTables(Database& database, const HeadRow& head) {
  RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  for (const char* table : kTables) RETURN_IF_ERROR(database.Execute(table));
  RETURN_IF_ERROR(RaiseVersion(database));
  ASSIGN_OR_RETURN(const Database::Statement statement, database.Prepare(kWriteHeadRow));
  RETURN_IF_ERROR(WriteHeadRow(database, statement.get(), head));
  return database.Execute("COMMIT");
}

absl::Status AddLeadership(Database& database, const LeadershipRow& leadership) {
  ASSIGN_OR_RETURN(const Database::Statement statement,
                   database.Prepare("INSERT INTO leaderships VALUES(?1, ?2, ?3, ?4)"));
  const std::string digest = leadership.Digest().Bytes();
  return database.Run(statement.get(),
                      {SqlText{leadership.id}, static_cast<int64_t>(leadership.first),
                       SqlText{leadership.started}, SqlBytes{digest}});
}

absl::Status DropLeaderships(Database& database, size_t count) {
  if (count == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Database::Statement statement,
                   database.Prepare("DELETE FROM leaderships WHERE id IN (SELECT id FROM "
                                    "leaderships ORDER BY first LIMIT ?1)"));
  return database.Run(statement.get(), {static_cast<int64_t>(count)});
}

absl::StatusOr<std::map<std::string, std::string>> ReadRows(Database& database) {
  std::map<std::string, std::string> records;
  RETURN_IF_ERROR(VisitRecords(database, [&](std::string key, std::string bytes) {
    records[std::move(key)] = std::move(bytes);
  }));
  return records;
}

}  // namespace remesh::server
