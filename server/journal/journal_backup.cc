// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

// Damage of the copy is reported as the journal's, because the copy has the same bytes.
constexpr Database::Kind kBackupKind{.name = "journal's copy", .reason_prefix = "JOURNAL"};

absl::StatusOr<HeadRow> CheckCopy(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> copy,
                   Database::OpenUnchanging(path, kBackupKind));
  ASSIGN_OR_RETURN(const std::optional<JournalContents> contents, ReadContents(*copy));
  if (contents) return contents->head;
  return MakeError(absl::StatusCode::kDataLoss, absl::StrCat("journal's copy ", path, " is empty"),
                   {.reason = "JOURNAL_CORRUPT", .metadata = {{"path", path}}});
}

absl::Status OpenCopy(const std::string& path, JournalBackup& backup) {
  backup.file = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (backup.file && fstat(backup.file.get(), &info) == 0) {
    backup.bytes = info.st_size;
    return absl::OkStatus();
  }
  const std::string why = std::strerror(errno);
  return MakeError(absl::StatusCode::kUnavailable, absl::StrCat("journal's copy ", path, ": ", why),
                   {.reason = "BACKUP_IO", .metadata = {{"path", path}, {"error", why}}});
}

}  // namespace

JournalBackups::JournalBackups(const std::string& journal_path, JournalWriter& writer)
    : path_(journal_path + ".backup.tmp"), writer_(writer) {
  unlink(path_.c_str());  // left by a server that was killed during a backup
}

absl::StatusOr<JournalBackup> JournalBackups::Take(absl::FunctionRef<bool()> wanted) {
  JournalBackup::Turn turn(taken_.exchange(true) ? nullptr : &taken_);
  if (turn == nullptr) {
    return MakeError(absl::StatusCode::kAborted,
                     "another backup of the journal is being taken: ask again when it is done",
                     {.reason = "BACKUP_RUNS", .metadata = {}});
  }
  const absl::Cleanup remove = [this] { unlink(path_.c_str()); };
  RETURN_IF_ERROR(writer_.Copy(path_, wanted));
  JournalBackup backup;
  ASSIGN_OR_RETURN(backup.head, CheckCopy(path_));
  RETURN_IF_ERROR(OpenCopy(path_, backup));
  backup.turn = std::move(turn);  // last: otherwise `remove` could delete the next backup's file
  return backup;
}

}  // namespace remesh::server
