// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "server/journal/journal_writer.h"
#include "server/journal/rows.h"

namespace remesh::server {

// A copy of a journal in a file without a name: the copy vanishes with this object.
struct JournalBackup {
  struct EndTurn {
    void operator()(std::atomic<bool>* taken) const { *taken = false; }
  };
  using Turn = std::unique_ptr<std::atomic<bool>, EndTurn>;

  Turn turn;  // held for the backup's lifetime: one backup at a time; not after its JournalBackups
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
  // and row of the copy. Blocks. ABORTED (BACKUP_RUNS) while another backup exists, DATA_LOSS
  // (JOURNAL_CORRUPT), CANCELLED once `wanted` returns false, and the errors of
  // JournalWriter::Copy().
  absl::StatusOr<JournalBackup> Take(absl::FunctionRef<bool()> wanted);

 private:
  const std::string path_;
  JournalWriter& writer_;
  std::atomic<bool> taken_ = false;
};

}  // namespace remesh::server
