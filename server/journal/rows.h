// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/journal/row_digest.h"
#include "server/sqlite/database.h"

namespace remesh::server {

// The tables of a journal. Each row has a digest, and the head row has the digest of all other
// rows, so that pages from another time are detected even if each is intact by itself.
//
// The version is in user_version. A start of the server raises that of an older journal, whose
// records this program reads too. There is no version 3: one flipped bit would turn it into 2.
inline constexpr int kJournalVersion = 4;
inline constexpr int kOldJournalVersion = 2;

// The one row that every transaction writes.
struct HeadRow {
  std::string journal_uid;
  std::string cluster_uid;
  std::string leadership;  // empty in a journal that no server has led yet
  uint64_t sequence = 0;   // of the last transaction
  RowDigest rows;          // of all rows of the other tables together

  RowDigest Digest() const;
};

// One life of the server on this journal.
struct LeadershipRow {
  std::string id;
  uint64_t first = 0;   // its first transaction
  std::string started;  // wall time, for people

  RowDigest Digest() const;
};

RowDigest RecordDigest(std::string_view key, std::string_view bytes);

struct JournalContents {
  HeadRow head;
  std::vector<LeadershipRow> leaderships;  // by their first transactions
};

// Checks every page and row. Returns nullopt when the database is empty. DATA_LOSS
// (JOURNAL_CORRUPT) names what is damaged; FAILED_PRECONDITION (JOURNAL_VERSION) names what another
// program wrote.
absl::StatusOr<std::optional<JournalContents>> ReadContents(Database& database);

// `statement` is kWriteHeadRow, prepared.
inline constexpr char kWriteHeadRow[] =
    "INSERT OR REPLACE INTO head VALUES(1, ?1, ?2, ?3, ?4, ?5, ?6)";
absl::Status WriteHeadRow(Database& database, sqlite3_stmt* statement, const HeadRow& head);

// Makes the journal one of kJournalVersion, which older programs refuse.
absl::Status RaiseVersion(Database& database);

// Creates the tables of an empty database, and its head row.
absl::Status CreateTables(Database& database, const HeadRow& head);

absl::Status AddLeadership(Database& database, const LeadershipRow& leadership);
// Drops the first `count` leaderships.
absl::Status DropLeaderships(Database& database, size_t count);

// DATA_LOSS (JOURNAL_CORRUPT) names the first key whose digest differs.
absl::StatusOr<std::map<std::string, std::string>> ReadRows(Database& database);

}  // namespace remesh::server
