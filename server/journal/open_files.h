// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace remesh::server {

// The files that a journal has open, as their folder showed them when it was opened. What is
// written to a file that has lost its name is gone with the process.
class OpenFiles {
 public:
  // Looks at the journal at `path`, its WAL and its head. UNAVAILABLE (JOURNAL_IO).
  static absl::StatusOr<OpenFiles> Of(const std::string& path);

  // FAILED_PRECONDITION (JOURNAL_LOST) names a file that was deleted, renamed or replaced since. A
  // path that cannot be looked at counts as unchanged.
  absl::Status Check() const;

 private:
  struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };

  std::string journal_;
  std::vector<File> files_;
};

}  // namespace remesh::server
