// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/truncation_guard.h"

namespace remesh::worker {

// The status of a system call that just failed on `path`: RESOURCE_EXHAUSTED (MEMORY_EXHAUSTED)
// when space ran out, INTERNAL (IO_ERROR) otherwise. Reads errno.
absl::Status SystemError(const std::string& what, const std::string& path);

// Creates `path` (mode 0660) with every byte reserved: on a full tmpfs ftruncate() succeeds, and a
// later store raises SIGBUS. Leaves nothing behind on error. CANCELLED if `cancelled` becomes true
// in the meantime; null: never.
absl::Status CreateReservedFile(const std::string& path, int64_t bytes,
                                const std::atomic<bool>* cancelled = nullptr);

class Device;
struct DeviceAccess;

// A file mapped shared, readable and writable, for as long as the object lives, even if the file is
// unlinked. Huge pages of it are mapped whole. If another process truncates the file, the bytes are
// spoiled, but this process survives: see TruncationGuard.
class MappedFile {
 public:
  // FAILED_PRECONDITION (BUFFER_TRUNCATED) if the file is shorter than `bytes` or, on a tmpfs,
  // lacks some of their pages. REQUIRES: all of the bytes were reserved.
  static absl::StatusOr<MappedFile> Open(const std::string& path, int64_t bytes);
  // Maps memory of another process. INVALID_ARGUMENT unless it is sealed against shrinking, so that
  // it is never cut short, at least `bytes` long, and of ordinary pages (not MFD_HUGETLB). `fd`
  // stays the caller's.
  static absl::StatusOr<MappedFile> OfMemory(int fd, int64_t bytes);
  // Creates a reserved file without a name in `directory`. CANCELLED as above.
  static absl::StatusOr<MappedFile> CreateScratch(const std::string& directory, int64_t bytes,
                                                  const std::atomic<bool>* cancelled = nullptr);

  MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<std::byte> bytes() const { return bytes_; }
  // Where Open() found the file, or Move() put it; empty for others.
  const std::string& path() const { return path_; }

  // Whether an access by a thread of this process has met a truncated file. Since then the bytes
  // are not the file's any more, and no other access fails.
  bool truncated() const { return guard_ != nullptr && guard_->hit(); }
  // FAILED_PRECONDITION (BUFFER_TRUNCATED) if truncated(), if the file is too short now or, on a
  // tmpfs, if it was too short once and not every page was accessed since.
  absl::Status CheckWhole() const;

  // Whether no other open file description, of this or any other process, refers to the file, not
  // even by a mapping. This is the condition of a write lease (fcntl(2), F_SETLEASE), which is held
  // for some microseconds: an open() in this moment waits for its end, or fails with EWOULDBLOCK if
  // it has O_NONBLOCK. Pages that stay pinned without a mapping (RDMA, io_uring) do not count, nor
  // do those that the kernel itself still reads, for a sendfile() of a closed descriptor.
  // UNIMPLEMENTED (NO_LEASE) if the kernel cannot tell. Only a tmpfs is reliable: on an overlay the
  // lease does not see mappings. REQUIRES: Open() made this object.
  absl::StatusOr<bool> HeldByNoOther() const;
  // Lets the inotify instance report `events` of the file from now on, by
  // whatever name it is reached. Returns the watch's number in the instance;
  // RESOURCE_EXHAUSTED if the kernel has no more watches to give, another error
  // if it cannot watch the file. REQUIRES: as HeldByNoOther().
  absl::StatusOr<int> Report(int inotify, uint32_t events) const;
  // The address by which `device` reaches the bytes. The file is registered with each device once,
  // and again only if it may have other pages than before: a trainer that rewrites a file may give
  // it new ones, which an older registration would not see. If nothing can tell, it is registered
  // for each caller. No other device may be mapped at `device` in the meantime. Errors: as
  // Device::Register(). One thread at a time.
  absl::StatusOr<std::shared_ptr<std::byte>> ReachedBy(Device& device) const;

  // Whether `path` names this file: no other file was put in its place.
  bool IsAt(const std::string& path) const;
  // Whether IsAt(path), and no other name refers to the file: there is no other hard link.
  bool IsOnlyAt(const std::string& path) const;
  // Whether the file is exactly as long as the mapping, without holes.
  bool IsExact() const;
  // Renames the file, whose folder may have been renamed since it was opened. REQUIRES: Open() made
  // this object.
  absl::Status Move(const std::string& from, const std::string& to);

 private:
  std::span<std::byte> bytes_;
  // Only for an opened file, which others may truncate.
  std::string path_;
  int fd_ = -1;
  bool on_tmpfs_ = false;
  bool is_scratch_ = false;  // no other process has it
  std::unique_ptr<TruncationGuard> guard_;
  mutable std::unique_ptr<DeviceAccess> access_;  // see ReachedBy()
};

}  // namespace remesh::worker
