// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/strand.h"

namespace remesh::service {

// A file to which a thread of its own appends lines, so that a slow or full disk blocks no caller:
// lines that cannot be written are lost and counted. If the file was moved away, it is created
// again, so logrotate needs no signal. Thread-safe.
class AuditFile {
 public:
  struct Options {
    std::string path;                            // "-": stderr
    std::function<void()> on_lost = [] {};       // for each line; on any thread
    size_t waiting_bytes_max = size_t{4} << 20;  // of lines that wait for the disk
  };
  // INVALID_ARGUMENT naming the setting audit_log_file when the file cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditFile>> Open(Options options);
  // Writes the lines that still wait.
  ~AuditFile();

  // `line` ends in a newline.
  void Append(std::string line);

 private:
  explicit AuditFile(Options options) : options_(std::move(options)) {}
  bool Reopen();
  void FollowPath();
  void Write(const std::string& line);

  const Options options_;
  std::atomic<size_t> waiting_bytes_ = 0;
  // Used only by the strand once the file is open.
  int fd_ = -1;
  bool torn_ = false;  // the last line was written in part
  Strand strand_;      // last: it uses all of the above
};

}  // namespace remesh::service
