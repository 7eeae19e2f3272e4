// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "server/journal/journal_writer.h"
#include "server/journal/rows.h"

namespace remesh::server {

// A copy of a journal in a file without a name: the copy vanishes with this object.
struct JournalBackup {
  std::unique_lock<std::mutex> turn;  // held for the backup's lifetime: one backup at a time
  Fd file;
  int64_t bytes = 0;
  HeadRow head;
};

// Takes backups of a journal in use, one at a time because each takes as much disk as the journal.
// Thread-safe.
class JournalBackups {
 public:
  // `writer` must outlive this. The copy is made beside `journal_path`.
  JournalBackups(const std::string& journal_path, JournalWriter& writer);

  // Takes a backup of the journal as it is at some moment during the call, and checks every page
  // and row of the copy. Blocks; the backup must be destroyed on the same thread. ABORTED
  // (BACKUP_RUNS), DATA_LOSS (JOURNAL_CORRUPT), CANCELLED once `wanted` returns false, and the
  // errors of JournalWriter::Copy().
  absl::StatusOr<JournalBackup> Take(absl::FunctionRef<bool()> wanted);

 private:
  const std::string path_;
  JournalWriter& writer_;
  std::mutex turn_;
};

}  // namespace remesh::server
