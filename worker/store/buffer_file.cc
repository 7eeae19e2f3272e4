// SPDX-License-Identifier: Apache-2.0
#include "worker/store/buffer_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh {
namespace {

// posix_fallocate() that survives signals.
int Reserve(int fd, int64_t bytes) {
  int error;
  do {
    error = posix_fallocate(fd, 0, bytes);
  } while (error == EINTR);
  return error;
}

absl::StatusOr<std::span<std::byte>> Map(int fd, int64_t bytes, const std::string& path) {
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return SystemError("mmap", path);
  return std::span(static_cast<std::byte*>(start), static_cast<size_t>(bytes));
}

}  // namespace

absl::Status SystemError(const std::string& what, const std::string& path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == ENOMEM;
  return MakeError(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      absl::StrCat(what, " of ", path, ": ", std::strerror(error)),
      {full ? "MEMORY_EXHAUSTED" : "IO_ERROR", {{"path", path}, {"error", std::strerror(error)}}});
}

absl::Status CreateReservedFile(const std::string& path, int64_t bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
  if (fd < 0) return SystemError("create", path);
  // The umask must not keep the trainer's group out.
  fchmod(fd, 0660);
  const int error = bytes > 0 ? Reserve(fd, bytes) : 0;
  close(fd);
  if (error == 0) return absl::OkStatus();
  unlink(path.c_str());
  errno = error;
  return SystemError(absl::StrCat("reserving ", bytes, " bytes"), path);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, int64_t bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path);
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size < bytes) {
    close(fd);
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(path, " is shorter than its ", bytes, " bytes"),
                     {"BUFFER_TRUNCATED", {{"path", path}, {"bytes", absl::StrCat(bytes)}}});
  }
  auto mapped = Map(fd, bytes, path);
  close(fd);
  if (!mapped.ok()) return mapped.status();
  return MappedFile(*mapped);
}

absl::StatusOr<MappedFile> MappedFile::CreateScratch(const std::string& directory, int64_t bytes) {
  std::string path = directory + "/scratch.XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return SystemError("create", path);
  unlink(path.c_str());
  if (const int error = Reserve(fd, bytes); error != 0) {
    close(fd);
    errno = error;
    return SystemError(absl::StrCat("reserving ", bytes, " bytes"), path);
  }
  auto mapped = Map(fd, bytes, path);
  close(fd);
  if (!mapped.ok()) return mapped.status();
  return MappedFile(*mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace remesh
