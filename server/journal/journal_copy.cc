// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_copy.h"

#include <sqlite3.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr int kStepPages = 64;
constexpr Database::Kind kCopyKind{.name = "journal's copy", .reason_prefix = "BACKUP"};
// A copy that a crash leaves behind has no value, so it needs neither a journal of its own nor
// syncs.
constexpr char kCopySettings[] = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF";

absl::StatusOr<int64_t> NumberOf(Database& database, const char* pragma) {
  int64_t number = 0;
  RETURN_IF_ERROR(
      database.Query(pragma, {}, [&](sqlite3_stmt* row) { number = Database::Number(row, 0); }));
  return number;
}

absl::Status CheckRoom(Database& journal, const std::string& path) {
  ASSIGN_OR_RETURN(const int64_t pages, NumberOf(journal, "PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page_bytes, NumberOf(journal, "PRAGMA page_size"));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  struct statvfs disk;
  if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free = disk.f_bavail * disk.f_frsize;
  const uint64_t wanted = static_cast<uint64_t>(pages * page_bytes + JournalCopy::kSpareBytes);
  if (free >= wanted) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("a copy of the journal would fill its disk: ", path, " needs ",
                                wanted, " bytes, and ", free, " are free"),
                   {.reason = "BACKUP_FULL",
                    .metadata = {{"path", path},
                                 {"wanted_bytes", absl::StrCat(wanted)},
                                 {"free_bytes", absl::StrCat(free)}}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<JournalCopy>> JournalCopy::Begin(Database& journal,
                                                                const std::string& path) {
  RETURN_IF_ERROR(CheckRoom(journal, path));
  unlink(path.c_str());
  ASSIGN_OR_RETURN(std::unique_ptr<Database> copy, Database::Open(path, kCopyKind));
  RETURN_IF_ERROR(copy->Execute(kCopySettings));
  sqlite3_backup* backup = sqlite3_backup_init(copy->handle(), "main", journal.handle(), "main");
  if (backup == nullptr) return copy->Error(sqlite3_extended_errcode(copy->handle()));
  return std::unique_ptr<JournalCopy>(new JournalCopy(std::move(copy), backup));
}

JournalCopy::~JournalCopy() { Finish(); }

absl::StatusOr<bool> JournalCopy::Step() {
  const int code = sqlite3_backup_step(backup_, kStepPages);
  if (code == SQLITE_OK) return false;
  // Ends the copying; otherwise the copy would keep following the journal.
  const int finished = Finish();
  if (code == SQLITE_DONE && finished == SQLITE_OK) return true;
  return copy_->Error(code == SQLITE_DONE ? finished : code);
}

int JournalCopy::Finish() {
  return backup_ == nullptr ? SQLITE_OK : sqlite3_backup_finish(std::exchange(backup_, nullptr));
}

}  // namespace remesh::server
