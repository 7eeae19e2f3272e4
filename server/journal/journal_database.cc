// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <utility>

#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr int kCheckpointPages = 1000;
// The size of the WAL to keep when it starts over: more than the pages above, so that the WAL keeps
// its room on a disk that becomes full, but not the room of one large transaction.
constexpr char kWalBytes[] = "PRAGMA journal_size_limit=8388608";

int CountPages(void* pages, sqlite3*, const char*, int in_wal) {
  *static_cast<int*>(pages) = in_wal;
  return SQLITE_OK;
}

bool IsNew(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) != 0 || info.st_size == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JournalDatabase>> JournalDatabase::Open(const std::string& path) {
  // On a file that is not new, auto_vacuum would write and yet change nothing.
  const bool is_new = IsNew(path);
  ASSIGN_OR_RETURN(std::unique_ptr<Database> opened,
                   Database::Open(path, {.name = "journal", .reason_prefix = "JOURNAL"}));
  std::unique_ptr<JournalDatabase> journal(new JournalDatabase(std::move(opened)));
  sqlite3* handle = journal->sql().handle();
  // When a WAL is refused, closing must not move its readable part into the file.
  journal->Disown();
  sqlite3_wal_hook(handle, CountPages, &journal->wal_pages_);
  // Lock before anything is read: two servers on one journal would both make decisions.
  RETURN_IF_ERROR(
      journal->sql().Lock(is_new ? "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=FULL"
                                 : "PRAGMA synchronous=FULL"));
  return journal;
}

void JournalDatabase::Disown() {
  sqlite3_db_config(sql().handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

absl::Status JournalDatabase::Own() {
  sqlite3_db_config(sql().handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  RETURN_IF_ERROR(sql().UseWal());
  return sql().Execute(kWalBytes);
}

absl::Status JournalDatabase::CheckpointWhenDue() {
  return wal_pages_ < kCheckpointPages ? absl::OkStatus() : Checkpoint(SQLITE_CHECKPOINT_PASSIVE);
}

absl::Status JournalDatabase::Checkpoint(int mode) {
  const int code = sqlite3_wal_checkpoint_v2(sql().handle(), nullptr, mode, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : sql().Error(code);
}

absl::Status JournalDatabase::GiveBackFreePages() {
  int64_t free_pages = 0;
  RETURN_IF_ERROR(sql().Query("PRAGMA freelist_count", {},
                              [&](sqlite3_stmt* row) { free_pages = Database::Number(row, 0); }));
  if (free_pages == 0) return absl::OkStatus();
  RETURN_IF_ERROR(sql().Execute("PRAGMA incremental_vacuum(1000)"));
  return Checkpoint(SQLITE_CHECKPOINT_PASSIVE);  // makes the file shorter
}

absl::Status JournalDatabase::EmptyWal() { return Checkpoint(SQLITE_CHECKPOINT_TRUNCATE); }

int64_t JournalDatabase::WalBytes() const {
  struct stat info;
  return stat((path() + "-wal").c_str(), &info) == 0 ? info.st_size : 0;
}

}  // namespace remesh::server
