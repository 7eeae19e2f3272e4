// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/mapped_file.h"
#include "planner/values/box.h"
#include "planner/values/element_type.h"

namespace remesh::client {

// A whole array in a folder. Arrays of NumPy's types are in FILE.npy; others (bf16, fp8, int4 ...)
// are in FILE.bin, dense row-major and packed below a byte, beside FILE.json:
//   {"element_type": "bf16", "shape": [2048, 8192]}
// or, to read, in FILE.npy as NumPy saves types of whole bytes that it does not know.
// FILE is the array's name with every byte outside [A-Za-z0-9._-], and a leading dot, as %XX.
class ArrayFile {
 public:
  // Opens an array for reading. NOT_FOUND when there is no file, FAILED_PRECONDITION
  // (ARRAY_FILE_MISMATCH) when the file has another type or shape, or is too short.
  static absl::StatusOr<ArrayFile> Open(const std::string& folder, const std::string& name,
                                        planner::ElementType type, const planner::Shape& shape);
  // Opens an array for writing and creates its file (all zero) if it does not exist. Several hosts
  // may write their boxes into one file of a shared folder. Errors as of Open().
  static absl::StatusOr<ArrayFile> OpenOrCreate(const std::string& folder, const std::string& name,
                                                planner::ElementType type,
                                                const planner::Shape& shape);

  absl::Span<std::byte> data() const { return file_.bytes().subspan(header_bytes_); }

 private:
  ArrayFile(MappedFile file, size_t header_bytes)
      : file_(std::move(file)), header_bytes_(header_bytes) {}

  MappedFile file_;
  size_t header_bytes_;
};

// FILE for an array, as described above.
std::string FileStem(const std::string& array_name);

}  // namespace remesh::client
