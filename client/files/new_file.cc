// SPDX-License-Identifier: Apache-2.0
#include "client/files/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::client {
namespace {

absl::Status Exists(const std::string& path) {
  return MakeError(absl::StatusCode::kAlreadyExists,
                   absl::StrCat(path, " already exists; use --force to replace it"),
                   {.reason = "FILE_EXISTS", .metadata = {{"path", path}}});
}

// Syncs the folder, so that the new name is on disk too.
bool SyncFolder(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const Fd folder(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder && fsync(folder.get()) == 0;
}

}  // namespace

absl::Status NewFile::Error(const char* what) const {
  const bool no_folder = errno == ENOENT;
  const std::string why = absl::StrCat(what, ": ", std::strerror(errno));
  return MakeError(no_folder ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable,
                   absl::StrCat("cannot write ", path_, ": ", why),
                   {.reason = "FILE_NOT_WRITTEN", .metadata = {{"path", path_}, {"error", why}}});
}

absl::StatusOr<NewFile> NewFile::Open(std::string path, Existing existing) {
  NewFile file(std::move(path), existing);
  if (existing == Existing::kKeep && access(file.path_.c_str(), F_OK) == 0) {
    return Exists(file.path_);
  }
  Fd fd(open(file.temporary().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return file.Error("open");
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return file.Error("another process writes it");
  if (ftruncate(fd.get(), 0) != 0) return file.Error("truncate");
  file.fd_ = std::move(fd);
  return file;
}

NewFile::~NewFile() {
  if (fd_) unlink(temporary().c_str());
}

absl::Status NewFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error("write");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status NewFile::Commit() {
  if (fsync(fd_.get()) != 0) return Error("fsync");
  // Uses link() if nothing may be replaced, because rename() replaces without asking.
  const bool keep = existing_ == Existing::kKeep;
  const int named = keep ? link(temporary().c_str(), path_.c_str())
                         : std::rename(temporary().c_str(), path_.c_str());
  if (named != 0) return errno == EEXIST ? Exists(path_) : Error("name");
  if (keep) unlink(temporary().c_str());
  fd_.Reset();
  return SyncFolder(path_) ? absl::OkStatus() : Error("fsync of its folder");
}

}  // namespace remesh::client
