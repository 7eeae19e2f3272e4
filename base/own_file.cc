// SPDX-License-Identifier: Apache-2.0
#include "base/own_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

constexpr mode_t kFolderMode = 0755;

absl::Status NotOwn(const std::string& path, const std::string& what) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat(path, " ", what, ", so another user may have put it there: remove it"),
      {.reason = "NOT_OWN_FILE", .metadata = {{"path", path}, {"what", what}}});
}

absl::Status NotOpened(const std::string& path, int error) {
  const std::string why = std::strerror(error);
  if (error == ENOENT) {
    return MakeError(absl::StatusCode::kNotFound, absl::StrCat(path, " does not exist"),
                     {.reason = "FILE_NOT_FOUND", .metadata = {{"path", path}}});
  }
  if (error == ELOOP) return NotOwn(path, "is a symbolic link");
  // A FIFO without a reader, or a socket.
  if (error == ENXIO) return NotOwn(path, "is not a regular file");
  const bool full = error == ENOSPC || error == EDQUOT;
  return MakeError(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
                   absl::StrCat("open of ", path, ": ", why),
                   {.reason = full ? "MEMORY_EXHAUSTED" : "IO_ERROR",
                    .metadata = {{"path", path}, {"error", why}}});
}

absl::Status CheckOwn(int fd, const std::string& path, Links links) {
  struct stat info;
  if (fstat(fd, &info) != 0) return NotOpened(path, errno);
  if (!S_ISREG(info.st_mode)) return NotOwn(path, "is not a regular file");
  if (info.st_uid != geteuid()) {
    return NotOwn(path, absl::StrCat("belongs to user ", info.st_uid, ", not to ", geteuid()));
  }
  if (links == Links::kOne && info.st_nlink > 1) {
    return NotOwn(path, absl::StrCat("has ", info.st_nlink, " names"));
  }
  return absl::OkStatus();
}

bool IsOwner(uid_t user) { return user == 0 || user == geteuid(); }

// Why files in the folder may be another user's; empty if they may not.
std::string WhyShared(const std::string& folder, const struct stat& info, Writers writers) {
  if (!IsOwner(info.st_uid)) {
    return absl::StrCat("must be root's or this process's, but ", folder, " belongs to user ",
                        info.st_uid, ", who can replace every file in it. Remove it, or chown ",
                        geteuid(), " ", folder);
  }
  if (!IsSharedFolder(info)) return "";
  const bool sticky = info.st_uid == 0 && (info.st_mode & S_ISVTX) != 0;
  if (writers == Writers::kSticky && sticky) return "";
  return absl::StrFormat(
      "must be writable to its owner alone, but %s has mode %04o (owner %d, group %d): whoever may "
      "write there can replace the files. Run chmod g-w,o-w %s",
      folder, info.st_mode & 07777, info.st_uid, info.st_gid, folder);
}

}  // namespace

absl::StatusOr<Fd> OpenOwnFile(const std::string& path, int flags, mode_t mode, Links links) {
  const int safe = (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd fd(open(path.c_str(), safe, mode));
  if (!fd) return NotOpened(path, errno);
  RETURN_IF_ERROR(CheckOwn(fd.get(), path, links));
  if ((flags & O_TRUNC) != 0 && ftruncate(fd.get(), 0) != 0) return NotOpened(path, errno);
  return fd;
}

absl::Status CheckOwnFolder(const std::string& field, const std::string& value,
                            const std::string& folder, Writers writers) {
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0) return absl::OkStatus();
  if (S_ISLNK(info.st_mode) && !IsOwner(info.st_uid)) {
    return InvalidField(
        field, value,
        absl::StrCat("must not lead through ", folder, ", a symbolic link of user ", info.st_uid));
  }
  if (stat(folder.c_str(), &info) != 0) return absl::OkStatus();
  const std::string why = WhyShared(folder, info, writers);
  return why.empty() ? absl::OkStatus() : InvalidField(field, value, why);
}

bool MakeFolder(const std::string& folder) {
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  std::error_code ignored;
  const bool has_parent = parent.empty() || std::filesystem::exists(parent, ignored);
  if (!has_parent && !MakeFolder(parent.string())) return false;
  return mkdir(folder.c_str(), kFolderMode) == 0 || errno == EEXIST;
}

}  // namespace remesh
