// SPDX-License-Identifier: Apache-2.0
#include "server/journal/open_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::server {

absl::StatusOr<OpenFiles> OpenFiles::Of(const std::string& path) {
  OpenFiles open;
  open.journal_ = path;
  for (const char* suffix : {"", "-wal", ".head"}) {
    const std::string file = path + suffix;
    struct stat info;
    if (stat(file.c_str(), &info) != 0) {
      const std::string why = std::strerror(errno);
      return MakeError(absl::StatusCode::kUnavailable, absl::StrCat("journal ", file, ": ", why),
                       {.reason = "JOURNAL_IO", .metadata = {{"path", file}, {"error", why}}});
    }
    open.files_.push_back({.path = file, .device = info.st_dev, .inode = info.st_ino});
  }
  return open;
}

absl::Status OpenFiles::Check() const {
  for (const File& file : files_) {
    struct stat info;
    const bool found = stat(file.path.c_str(), &info) == 0;
    // A file system that does not answer has not lost the file.
    if (!found && errno != ENOENT && errno != ENOTDIR) continue;
    // Inodes are not used again while the file is open. A file that has no name any more has no
    // links, so the link count needs no look of its own.
    if (found && info.st_dev == file.device && info.st_ino == file.inode) continue;
    const char* what = found ? "was replaced" : "was deleted or renamed";
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("the journal's file ", file.path, " ", what,
                     " while the server runs: nothing is decided any more. Save what the server "
                     "still has (remeshctl journal backup) before it is stopped"),
        {.reason = "JOURNAL_LOST", .metadata = {{"path", journal_}, {"file", file.path}}});
  }
  return absl::OkStatus();
}

}  // namespace remesh::server
