// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/audit_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"

namespace remesh::service {

absl::StatusOr<std::unique_ptr<AuditFile>> AuditFile::Open(Options options) {
  std::unique_ptr<AuditFile> file(new AuditFile(std::move(options)));
  if (file->Reopen()) return file;
  return InvalidField("audit_log_file", file->options_.path, "must be a file that can be written");
}

AuditFile::~AuditFile() {
  strand_.Stop();
  if (fd_ >= 0 && fd_ != STDERR_FILENO) close(fd_);
}

void AuditFile::Append(std::string line) {
  const size_t bytes = line.size();
  const bool fits = waiting_bytes_.fetch_add(bytes) + bytes <= options_.waiting_bytes_max;
  const bool taken = fits && strand_.Post([this, bytes, line = std::move(line)] {
    FollowPath();
    Write(line);
    waiting_bytes_ -= bytes;
  });
  if (taken) return;
  waiting_bytes_ -= bytes;
  options_.on_lost();
}

// Opens the file again. The old file stays in use if the new one cannot be opened.
bool AuditFile::Reopen() {
  // O_NONBLOCK: does not wait for a reader if the path is a pipe.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  const int fd = options_.path == "-" ? STDERR_FILENO : open(options_.path.c_str(), kFlags, 0640);
  if (fd < 0) return false;
  if (struct statfs info; fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC) {
    close(fd);  // it can be a file that is not meant for this, such as /proc/self/mem
    return false;
  }
  if (fd_ >= 0 && fd_ != STDERR_FILENO) close(fd_);
  fd_ = fd;
  torn_ = false;
  return true;
}

void AuditFile::FollowPath() {
  if (fd_ == STDERR_FILENO) return;
  struct stat open_file, named_file;
  const bool same = fstat(fd_, &open_file) == 0 && stat(options_.path.c_str(), &named_file) == 0 &&
                    open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
  if (!same) Reopen();
}

void AuditFile::Write(const std::string& line) {
  const std::string text = torn_ ? "\n" + line : line;
  const ssize_t written = write(fd_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) {
    torn_ = false;
    return;
  }
  torn_ = torn_ || written > 0;
  options_.on_lost();
}

}  // namespace remesh::service
