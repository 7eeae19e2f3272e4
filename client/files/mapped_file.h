// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace remesh::client {

// A file mapped into memory, shared with all others that map it. Move-only; unmapped on
// destruction. Errors name the path and the system's cause; FAILED_PRECONDITION (NOT_A_FILE) for
// what is no regular file, such as a FIFO, which opening would wait for.
class MappedFile {
 public:
  // Maps the whole file. Spans of a file opened with `writable` false must not be written to.
  static absl::StatusOr<MappedFile> Open(const std::string& path, bool writable);
  // Maps the file. Creates it if it does not exist, exactly `bytes` long and all zero, with its
  // room reserved, so that later writes cannot fail. FAILED_PRECONDITION when it exists with
  // another length.
  static absl::StatusOr<MappedFile> OpenOrCreate(const std::string& path, int64_t bytes);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(std::byte* data, size_t size) : data_(data), size_(size) {}
  static absl::StatusOr<MappedFile> Map(int fd, const std::string& path, bool writable);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// FAILED_PRECONDITION (NOT_A_FILE) if there is something that is no regular file. OK if nothing is
// there.
absl::Status CheckRegularFile(const std::string& path);

// The contents of a small file, or of a pipe, which is waited for. NOT_FOUND (FILE_NOT_FOUND) when
// it does not exist, RESOURCE_EXHAUSTED beyond `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);
// The rest of a stream, but at most `max_bytes`.
std::string ReadAtMost(std::istream& in, int64_t max_bytes);
absl::Status WriteFile(const std::string& path, const std::string& content);

}  // namespace remesh::client
