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

// A copy of a journal in a file that has no name any more: it is gone with this.
struct JournalBackup {
  std::unique_lock<std::mutex> turn;  // of those who take backups
  Fd file;
  int64_t bytes = 0;
  HeadRow head;
};

// Backups of a journal in use, one at a time, since each takes as much disk as the journal.
// Thread-safe.
class JournalBackups {
 public:
  // `writer` must outlive it. The copy is made beside `journal_path`.
  JournalBackups(const std::string& journal_path, JournalWriter& writer);

  // Takes one, as the journal is at some moment meanwhile: every page and row of the copy is checked.
  // Blocks; the backup must go on the same thread. ABORTED (BACKUP_RUNS), DATA_LOSS
  // (JOURNAL_CORRUPT), CANCELLED once `wanted` says no, and those of JournalWriter::Copy().
  absl::StatusOr<JournalBackup> Take(absl::FunctionRef<bool()> wanted);

 private:
  const std::string path_;
  JournalWriter& writer_;
  std::mutex turn_;
};

}  // namespace remesh::server
