// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/files/new_file.h"

struct z_stream_s;

namespace remesh::client {

// A .tar.gz (ustar, IEEE 1003.1) that is written file by file and appears once it is complete.
class TarFile {
 public:
  // Errors: see NewFile::Open().
  static absl::StatusOr<std::unique_ptr<TarFile>> Create(std::string path,
                                                         NewFile::Existing existing);
  ~TarFile();

  // Adds a file. `name`: at most 100 bytes; `seconds`: time of modification, in Unix time.
  absl::Status Add(std::string_view name, std::string_view content, int64_t seconds);
  // Completes the archive; nothing may be added afterwards.
  absl::Status Commit();

 private:
  explicit TarFile(NewFile file);
  absl::Status Append(std::string_view bytes, bool last = false);
  absl::Status Pad(size_t bytes);

  NewFile file_;
  std::unique_ptr<z_stream_s> zip_;
};

}  // namespace remesh::client
