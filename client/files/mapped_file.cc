// SPDX-License-Identifier: Apache-2.0
#include "client/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::client {
namespace {

absl::Status FileError(const std::string& what, const std::string& path, int error) {
  const absl::StatusCode code =
      error == ENOENT                      ? absl::StatusCode::kNotFound
      : error == ENOSPC || error == EDQUOT ? absl::StatusCode::kResourceExhausted
      : error == EACCES || error == EPERM  ? absl::StatusCode::kPermissionDenied
                                           : absl::StatusCode::kUnknown;
  const std::string reason = error == ENOENT ? "FILE_NOT_FOUND" : "FILE_ERROR";
  return MakeError(
      code, absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error)),
      {.reason = reason, .metadata = {{"path", path}, {"error", std::strerror(error)}}});
}

absl::Status IsFolder(const std::string& path) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(path, " is a folder: name a file"),
                   {.reason = "NOT_A_FILE", .metadata = {{"path", path}}});
}

class FileDescriptor {
 public:
  FileDescriptor(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  FileDescriptor(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

// Refuses what is no regular file, before it is opened: opening a FIFO waits for its other end. A
// flag against that, O_NONBLOCK, fails where the worker looks who has its file open.
absl::Status CheckRegularFile(const std::string& path) {
  struct stat now;
  if (::stat(path.c_str(), &now) != 0 || S_ISREG(now.st_mode)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("open ", path, ": must be a regular file, not a ",
                                S_ISDIR(now.st_mode) ? "folder" : "FIFO, device or socket"),
                   {.reason = "NOT_A_FILE", .metadata = {{"path", path}}});
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, bool writable) {
  RETURN_IF_ERROR(CheckRegularFile(path));
  FileDescriptor fd(path, writable ? O_RDWR : O_RDONLY);
  if (fd.get() < 0) return FileError("open", path, errno);
  return Map(fd.get(), path, writable);
}

absl::StatusOr<MappedFile> MappedFile::OpenOrCreate(const std::string& path, int64_t bytes) {
  RETURN_IF_ERROR(CheckRegularFile(path));
  FileDescriptor fd(path, O_RDWR | O_CREAT);
  if (fd.get() < 0) return FileError("open", path, errno);
  struct stat now;
  if (::fstat(fd.get(), &now) != 0) return FileError("stat", path, errno);
  if (now.st_size != 0 && now.st_size != bytes) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     absl::StrCat(path, " is there with ", now.st_size, " bytes, not the ", bytes,
                                  " of this array: remove it or choose another folder"),
                     {.reason = "FILE_DIFFERS",
                      .metadata = {{"path", path},
                                   {"bytes", absl::StrCat(now.st_size)},
                                   {"expected_bytes", absl::StrCat(bytes)}}});
  }
  if (bytes > 0) {
    if (int error = ::posix_fallocate(fd.get(), 0, bytes); error != 0) {
      return FileError("reserve room for", path, error);
    }
  }
  return Map(fd.get(), path, true);
}

absl::StatusOr<MappedFile> MappedFile::Map(int fd, const std::string& path, bool writable) {
  struct stat now;
  if (::fstat(fd, &now) != 0) return FileError("stat", path, errno);
  const size_t size = static_cast<size_t>(now.st_size);
  if (size == 0) return MappedFile(nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return FileError("map", path, errno);
  return MappedFile(static_cast<std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::string ReadAtMost(std::istream& in, int64_t max_bytes) {
  constexpr int64_t kChunkBytes = 1 << 20;
  std::string content;
  int64_t read = kChunkBytes;
  while (read == kChunkBytes && static_cast<int64_t>(content.size()) < max_bytes) {
    const size_t before = content.size();
    const int64_t wanted = std::min(kChunkBytes, max_bytes - static_cast<int64_t>(before));
    content.resize(before + wanted);
    in.read(content.data() + before, wanted);
    read = in.gcount();
    content.resize(before + read);
  }
  return content;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError("open", path, errno != 0 ? errno : EIO);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return IsFolder(path);
  std::string content = ReadAtMost(file, max_bytes + 1);
  if (file.bad()) return FileError("read", path, EIO);
  if (static_cast<int64_t>(content.size()) > max_bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat(path, " is longer than ", max_bytes, " bytes"),
                     {.reason = "FILE_TOO_LARGE",
                      .metadata = {{"path", path}, {"max_bytes", absl::StrCat(max_bytes)}}});
  }
  return content;
}

absl::Status WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  return file ? absl::OkStatus() : FileError("write", path, errno != 0 ? errno : EIO);
}

}  // namespace remesh::client
