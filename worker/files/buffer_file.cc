// SPDX-License-Identifier: Apache-2.0
#include "worker/files/buffer_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/own_file.h"
#include "base/status_macros.h"
#include "worker/device/device.h"
#include "worker/files/huge_pages.h"
#include "worker/files/page_watch.h"

namespace remesh::worker {
namespace {

// The bytes reserved at once, which bounds how long a cancellation goes unseen.
constexpr int64_t kReserveStepBytes = int64_t{128} << 20;
// The first step shows whether huge pages come fast, and costs little when they do not.
constexpr int64_t kFirstStepBytes = int64_t{8} << 20;

// posix_fallocate() that survives signals.
int Allocate(int fd, int64_t offset, int64_t bytes) {
  int error;
  do {
    error = posix_fallocate(fd, offset, bytes);
  } while (error == EINTR);
  return error;
}

// Returns 0 or an errno; ECANCELED if `cancelled` came first.
int Reserve(int fd, int64_t bytes, const std::atomic<bool>* cancelled) {
  bool huge = bytes >= kHugePageBytes && ftruncate(fd, bytes) == 0;
  int64_t step = 0;
  for (int64_t offset = 0; offset < bytes; offset += step) {
    if (cancelled != nullptr && *cancelled) return ECANCELED;
    step = std::min(offset == 0 ? kFirstStepBytes : kReserveStepBytes, bytes - offset);
    huge = huge && ReserveHugePages(fd, offset, step);
    if (const int error = Allocate(fd, offset, step); error != 0) return error;
  }
  return 0;
}

// Whether a reserved file is that long and has every page: pages that were cut off and grown back
// do not exist until they are accessed again. Looks at pages only on a tmpfs, as other file systems
// may pack their content. st_blocks counts units of 512 bytes, pages in swap space included.
bool HasBytes(int fd, int64_t bytes, bool on_tmpfs) {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_size < bytes) return false;
  return !on_tmpfs || info.st_blocks * 512 >= bytes;
}

absl::Status Truncated(const std::string& path, int64_t bytes) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat(path, " is or was shorter than its ", bytes, " bytes"),
                   {"BUFFER_TRUNCATED", {{"path", path}, {"bytes", absl::StrCat(bytes)}}});
}

// `error` is from Reserve().
absl::Status NotReserved(const std::string& path, int64_t bytes, int error) {
  if (error == ECANCELED) {
    return MakeError(absl::StatusCode::kCancelled,
                     absl::StrCat("reserving ", path, " was given up"),
                     {"CANCELLED", {{"path", path}}});
  }
  errno = error;
  return SystemError(absl::StrCat("reserving ", bytes, " bytes"), path);
}

absl::StatusOr<std::span<std::byte>> Map(int fd, int64_t bytes, const std::string& path) {
  const std::span<std::byte> mapped = MapAligned(fd, bytes);
  if (mapped.empty()) return SystemError("mmap", path);
  return mapped;
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

absl::Status CreateReservedFile(const std::string& path, int64_t bytes,
                                const std::atomic<bool>* cancelled) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
  if (fd < 0) return SystemError("create", path);
  // The umask must not keep the trainer's group out.
  fchmod(fd, 0660);
  const int error = Reserve(fd, bytes, cancelled);
  close(fd);
  if (error == 0) return absl::OkStatus();
  unlink(path.c_str());
  return NotReserved(path, bytes, error);
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path, int64_t bytes) {
  // Trainers may write the file, so they may give it further names.
  ASSIGN_OR_RETURN(Fd opened, OpenOwnFile(path, O_RDWR, 0, Links::kAny));
  const int fd = opened.Release();
  MappedFile file;
  file.path_ = path;
  file.fd_ = fd;
  file.on_tmpfs_ = OnTmpfs(fd);
  if (!HasBytes(fd, bytes, file.on_tmpfs_)) return Truncated(path, bytes);
  ASSIGN_OR_RETURN(file.bytes_, Map(fd, bytes, path));
  file.guard_ = std::make_unique<TruncationGuard>(file.bytes_);
  return file;
}

absl::StatusOr<MappedFile> MappedFile::OfMemory(int fd, int64_t bytes) {
  struct stat info {};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return InvalidField("memory", "the descriptor",
                        "must be of a file of memory that is sealed against shrinking");
  }
  if (fstat(fd, &info) != 0 || info.st_size < bytes) {
    return InvalidField("memory", absl::StrCat(info.st_size, " bytes"),
                        absl::StrCat("must be as long as it says, ", bytes));
  }
  struct statfs system {};
  // The kernel maps and unmaps such a file by whole huge pages alone.
  if (fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC) {
    return InvalidField("memory", "of huge pages",
                        "must be of ordinary pages, without MFD_HUGETLB");
  }
  MappedFile file;
  ASSIGN_OR_RETURN(file.bytes_, Map(fd, bytes, "lent memory"));
  file.guard_ = std::make_unique<TruncationGuard>(file.bytes_);
  return file;
}

absl::Status MappedFile::CheckWhole() const {
  const auto bytes = static_cast<int64_t>(bytes_.size());
  const bool whole = !truncated() && (fd_ < 0 || HasBytes(fd_, bytes, on_tmpfs_));
  return whole ? absl::OkStatus() : Truncated(path_, bytes);
}

absl::StatusOr<bool> MappedFile::HeldByNoOther() const {
  // If somebody opens the file in this moment, the kernel sends a signal. SIGURG does nothing
  // unless the process asks for it.
  fcntl(fd_, F_SETSIG, SIGURG);
  const int taken = on_tmpfs_ ? fcntl(fd_, F_SETLEASE, F_WRLCK) : -1;
  const int error = on_tmpfs_ ? errno : EOPNOTSUPP;
  if (taken == 0) fcntl(fd_, F_SETLEASE, F_UNLCK);
  if (taken == 0 || error == EAGAIN) return taken == 0;
  return MakeError(absl::StatusCode::kUnimplemented,
                   absl::StrCat("a lease on ", path_, ": ", std::strerror(error)),
                   {"NO_LEASE", {{"path", path_}, {"error", std::strerror(error)}}});
}

struct DeviceAccess {
  explicit DeviceAccess(std::optional<int64_t> of) : watch(of) {}
  ~DeviceAccess() {
    if (watch) PageWatch::Get().End(*watch);
  }

  const std::optional<int64_t> watch;  // of PageWatch; nullopt: no other process has the file
  std::map<const Device*, std::shared_ptr<std::byte>> addresses;
};

absl::StatusOr<std::shared_ptr<std::byte>> MappedFile::ReachedBy(Device& device) const {
  // Before it is registered again: a device that has it registered does nothing.
  if (access_ != nullptr && access_->watch && PageWatch::Get().TakeChanged(*access_->watch))
    access_ = nullptr;
  if (access_ == nullptr) {
    const auto watch = fd_ < 0 ? std::nullopt : PageWatch::Get().Watch(fd_);
    if (!watch && !is_scratch_) return device.Register(bytes_);
    access_ = std::make_unique<DeviceAccess>(watch);
  }
  std::shared_ptr<std::byte>& address = access_->addresses[&device];
  if (address == nullptr) {
    ASSIGN_OR_RETURN(address, device.Register(bytes_));
  }
  return address;
}

absl::StatusOr<int> MappedFile::Report(int inotify, uint32_t events) const {
  if (fd_ < 0) return absl::FailedPreconditionError("it was not opened by a path");
  // By the descriptor: the path may name another file by now.
  const std::string path = absl::StrCat("/proc/self/fd/", fd_);
  const int watch = inotify_add_watch(inotify, path.c_str(), events);
  if (watch < 0) return absl::ErrnoToStatus(errno, "inotify_add_watch");
  return watch;
}

bool MappedFile::IsAt(const std::string& path) const {
  struct stat own {
  }, there{};
  if (fstat(fd_, &own) != 0 || lstat(path.c_str(), &there) != 0) return false;
  return own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

bool MappedFile::IsOnlyAt(const std::string& path) const {
  struct stat own {};
  return IsAt(path) && fstat(fd_, &own) == 0 && own.st_nlink == 1;
}

bool MappedFile::IsExact() const {
  struct stat own {};
  if (fstat(fd_, &own) != 0 || own.st_size != static_cast<int64_t>(bytes_.size())) return false;
  return lseek(fd_, 0, SEEK_HOLE) == own.st_size;
}

absl::Status MappedFile::Move(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return SystemError("rename", from);
  path_ = to;
  return absl::OkStatus();
}

absl::StatusOr<MappedFile> MappedFile::CreateScratch(const std::string& directory, int64_t bytes,
                                                     const std::atomic<bool>* cancelled) {
  std::string path = directory + "/scratch.XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return SystemError("create", path);
  unlink(path.c_str());
  if (const int error = Reserve(fd, bytes, cancelled); error != 0) {
    close(fd);
    return NotReserved(path, bytes, error);
  }
  auto mapped = Map(fd, bytes, path);
  close(fd);
  if (!mapped.ok()) return mapped.status();
  MappedFile file;
  file.bytes_ = *mapped;
  file.is_scratch_ = true;
  return file;
}

MappedFile::MappedFile() = default;

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(on_tmpfs_, other.on_tmpfs_);
  std::swap(is_scratch_, other.is_scratch_);
  std::swap(guard_, other.guard_);
  std::swap(access_, other.access_);
  return *this;
}

MappedFile::~MappedFile() {
  access_.reset();
  guard_.reset();
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (fd_ >= 0) close(fd_);
}

}  // namespace remesh::worker
