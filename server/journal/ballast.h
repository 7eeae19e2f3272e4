// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace remesh::server {

// A file that only takes up room on the journal's disk. It is dropped when the disk is full, so
// that decisions can still be written.
class Ballast {
 public:
  static constexpr int64_t kBytes = int64_t{16} << 20;

  explicit Ballast(std::string path) : path_(std::move(path)) {}

  // Creates the file unless it exists in full. RESOURCE_EXHAUSTED without room for it and a
  // reserve: otherwise it would at once take the room that dropping it had freed. UNAVAILABLE when
  // it cannot be created for another reason.
  absl::Status Raise();

  // Bytes that the disk lacks for Raise(); 0: none, or unknown.
  int64_t Lacking() const;

  // Removes the file and frees its room. False: there was none to free.
  bool Drop();

 private:
  bool Stands() const;

  const std::string path_;
};

}  // namespace remesh::server
