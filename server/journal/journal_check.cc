// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_check.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/journal/head_file.h"
#include "server/journal/journal_database.h"
#include "server/journal/witness.h"

namespace remesh::server {
namespace {

absl::Status NoJournal(const std::string& path) {
  return MakeError(absl::StatusCode::kNotFound,
                   absl::StrCat("there is no journal at ", path, ", or it is empty"),
                   {.reason = "NO_JOURNAL", .metadata = {{"path", path}}});
}

absl::StatusOr<CheckedJournal> ReadAll(const std::string& path, Database& database) {
  ASSIGN_OR_RETURN(std::optional<JournalContents> contents, ReadContents(database));
  if (!contents) return NoJournal(path);
  CheckedJournal journal{.contents = *std::move(contents)};
  HeadFile head(path + ".head");
  RETURN_IF_ERROR(CheckWitness(path, journal.contents, head.Read(), /*accepted=*/false));
  ASSIGN_OR_RETURN(journal.records, ReadRows(database));
  return journal;
}

absl::StatusOr<CheckedJournal> ReadBackup(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   Database::OpenUnchanging(path, {.name = "journal", .reason_prefix = "JOURNAL"}));
  return ReadAll(path, *database);
}

// Reads a journal that a server left, with its WAL, which is part of it and to which another
// process may be writing.
absl::StatusOr<CheckedJournal> ReadLeft(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<JournalDatabase> journal, JournalDatabase::Open(path));
  return ReadAll(path, journal->sql());
}

}  // namespace

absl::StatusOr<CheckedJournal> CheckJournal(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes == 0) return NoJournal(path);
  const bool has_wal = std::filesystem::exists(path + "-wal", error);
  ASSIGN_OR_RETURN(CheckedJournal journal, has_wal ? ReadLeft(path) : ReadBackup(path));
  journal.bytes = static_cast<int64_t>(bytes);
  return journal;
}

}  // namespace remesh::server
