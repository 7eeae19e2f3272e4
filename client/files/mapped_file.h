// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace remesh::client {

// A file in memory, shared with whoever else maps it. Move-only; unmapped when it goes.
// Errors name the path and what the system said.
class MappedFile {
 public:
  // The whole file; spans of a file opened with `writable` false must not be written to.
  static absl::StatusOr<MappedFile> Open(const std::string& path, bool writable);
  // The file, made exactly `bytes` long if it is not there (new bytes are zero) and with its room
  // reserved, so that writing cannot fail later. FAILED_PRECONDITION when it is there with another
  // length.
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

// The content of a small file. NOT_FOUND (FILE_NOT_FOUND) when it is not there, RESOURCE_EXHAUSTED
// beyond `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes);
// What is left of a stream, but at most so many bytes.
std::string ReadAtMost(std::istream& in, int64_t max_bytes);
absl::Status WriteFile(const std::string& path, const std::string& content);

}  // namespace remesh::client
