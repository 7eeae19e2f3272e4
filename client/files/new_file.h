// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace remesh::client {

// A file that comes into being as a whole or not at all: it is written as PATH.tmp and renamed to
// PATH once it is on disk. Without Commit() nothing is left except, after a crash, PATH.tmp, which
// the next NewFile replaces.
class NewFile {
 public:
  enum class Existing { kKeep, kReplace };  // what to do with an existing file at PATH
  // Creates the file, readable by its owner only. ALREADY_EXISTS (FILE_EXISTS); NOT_FOUND
  // (FILE_NOT_WRITTEN) without the folder; UNAVAILABLE (FILE_NOT_WRITTEN) otherwise, also when
  // another process is writing it.
  static absl::StatusOr<NewFile> Open(std::string path, Existing existing);
  NewFile(NewFile&& other) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // UNAVAILABLE (FILE_NOT_WRITTEN).
  absl::Status Write(std::string_view bytes);
  absl::Status Commit();

 private:
  NewFile(std::string path, Existing existing) : path_(std::move(path)), existing_(existing) {}
  std::string temporary() const { return path_ + ".tmp"; }
  absl::Status Error(const char* what) const;

  std::string path_;
  Existing existing_;
  Fd fd_;  // none: committed, or moved from
};

}  // namespace remesh::client
