// SPDX-License-Identifier: Apache-2.0
#include "server/journal/ballast.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/own_file.h"
#include "base/status_macros.h"

namespace remesh::server {
namespace {

constexpr int64_t kSpareBytes = int64_t{4} << 20;

absl::Status ErrorOf(int error, const std::string& path) {
  const std::string what = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(what);
  return absl::UnavailableError(what);
}

}  // namespace

bool Ballast::Stands() const {
  struct stat info;
  // A copied file may have holes instead of room.
  return stat(path_.c_str(), &info) == 0 && info.st_size == kBytes &&
         int64_t{info.st_blocks} * 512 >= kBytes;
}

int64_t Ballast::Lacking() const {
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  struct statvfs disk;
  if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return 0;
  const uint64_t free = disk.f_bavail * disk.f_frsize;
  const uint64_t wanted = kBytes + kSpareBytes;
  return free < wanted ? static_cast<int64_t>(wanted - free) : 0;
}

absl::Status Ballast::Raise() {
  if (Stands()) return absl::OkStatus();
  if (Lacking() > 0) return ErrorOf(ENOSPC, path_);
  unlink(path_.c_str());  // whatever it is: it has nothing that is needed
  ASSIGN_OR_RETURN(const Fd fd, OpenOwnFile(path_, O_WRONLY | O_CREAT | O_EXCL, 0640));
  const int error = posix_fallocate(fd.get(), 0, kBytes);
  if (error == 0) return absl::OkStatus();
  unlink(path_.c_str());
  return ErrorOf(error, path_);
}

bool Ballast::Drop() {
  // Some file systems free an unlinked file later, but truncated bytes at once.
  return OpenOwnFile(path_, O_WRONLY | O_TRUNC).ok() && unlink(path_.c_str()) == 0;
}

}  // namespace remesh::server
