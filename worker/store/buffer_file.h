// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/store/truncation_guard.h"

namespace remesh::worker {

// The status of a system call that just failed on `path`: RESOURCE_EXHAUSTED (MEMORY_EXHAUSTED)
// when space ran out, INTERNAL (IO_ERROR) otherwise. Reads errno.
absl::Status SystemError(const std::string& what, const std::string& path);

// Creates `path` (mode 0660) with every byte reserved: on tmpfs ftruncate() succeeds on a full file
// system, and a later store is SIGBUS. Nothing is left behind on error. CANCELLED when `cancelled`
// becomes true meanwhile; null: never.
absl::Status CreateReservedFile(const std::string& path, int64_t bytes,
                                const std::atomic<bool>* cancelled = nullptr);

// A file mapped shared, readable and writable, for as long as the object lives, even if the file is
// unlinked. Huge pages of it are mapped whole. Another process that truncates the file spoils the
// bytes, not this process: see TruncationGuard.
class MappedFile {
 public:
  // FAILED_PRECONDITION (BUFFER_TRUNCATED) when the file is shorter than `bytes`, or, on a tmpfs,
  // lacks pages of them. REQUIRES: all of them were reserved.
  static absl::StatusOr<MappedFile> Open(const std::string& path, int64_t bytes);
  // A file of memory that is another's: never cut short, for it is sealed against that
  // (INVALID_ARGUMENT otherwise, or when it is shorter than `bytes`). `fd` stays the caller's.
  static absl::StatusOr<MappedFile> OfMemory(int fd, int64_t bytes);
  // A nameless file of `directory`, reserved; CANCELLED as above.
  static absl::StatusOr<MappedFile> CreateScratch(const std::string& directory, int64_t bytes,
                                                  const std::atomic<bool>* cancelled = nullptr);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<std::byte> bytes() const { return bytes_; }

  // Whether an access has met a truncated file since, as far as a thread of this process may know:
  // the bytes are not the file's any more, and no other access fails.
  bool truncated() const { return guard_ != nullptr && guard_->hit(); }
  // FAILED_PRECONDITION (BUFFER_TRUNCATED) when truncated(), or the file is too short now, or, on a
  // tmpfs, was and has not been accessed in every page since.
  absl::Status CheckWhole() const;

  // Whether no other open file description, of this or any other process, refers to the file, not
  // even by a mapping: what a write lease asks for (fcntl(2), F_SETLEASE). Pages that the kernel
  // itself still reads, for a sendfile() of a descriptor that is closed, do not count.
  // UNIMPLEMENTED (NO_LEASE) where the kernel cannot tell, which only a tmpfs can be relied on for:
  // on an overlay the lease does not see mappings. REQUIRES: Open() made it.
  absl::StatusOr<bool> HeldByNobodyElse() const;
  // Whether `path` names this file: nothing was put in its place.
  bool IsAt(const std::string& path) const;
  // The same, and no other name does: there is no hard link to it.
  bool IsOnlyAt(const std::string& path) const;
  // Whether it is exactly as long as what is mapped, without holes.
  bool IsExact() const;
  // Renames the file, whose folder may have been renamed since it was opened. REQUIRES: Open() made
  // it.
  absl::Status Move(const std::string& from, const std::string& to);

 private:
  std::span<std::byte> bytes_;
  // Of an opened file, which others may truncate.
  std::string path_;
  int fd_ = -1;
  std::unique_ptr<TruncationGuard> guard_;
};

}  // namespace remesh::worker
