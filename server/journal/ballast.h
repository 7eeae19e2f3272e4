// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace remesh::server {

// A file that only takes up room on the journal's disk. Dropped when the disk is full, so that
// decisions can still be written.
class Ballast {
 public:
  static constexpr int64_t kBytes = int64_t{16} << 20;

  explicit Ballast(std::string path) : path_(std::move(path)) {}

  // Makes it stand, unless it does. RESOURCE_EXHAUSTED without room for it and some more: else it
  // would take at once what its own drop had freed. UNAVAILABLE when it cannot be made for another
  // reason.
  absl::Status Raise();

  // Bytes that the disk lacks for Raise(); 0: none, or nobody knows.
  int64_t Lacking() const;

  // Gives its room back. False: there was none to give.
  bool Drop();

 private:
  bool Stands() const;

  const std::string path_;
};

}  // namespace remesh::server
