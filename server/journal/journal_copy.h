// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sqlite/database.h"

struct sqlite3_backup;

namespace remesh::server {

// A copy of a journal that is in use, made in steps between its transactions. When a transaction
// changes pages that are already copied, the copy gets the change too, so it never starts over. For
// the journal's thread.
class JournalCopy {
 public:
  // Room to leave free on the disk for the journal itself.
  static constexpr int64_t kSpareBytes = int64_t{32} << 20;

  // Begins a copy into a new file at `path`, replacing an existing file. RESOURCE_EXHAUSTED
  // (BACKUP_FULL) without room for the copy and kSpareBytes; UNAVAILABLE (BACKUP_IO).
  static absl::StatusOr<std::unique_ptr<JournalCopy>> Begin(Database& journal,
                                                            const std::string& path);
  ~JournalCopy();

  JournalCopy(const JournalCopy&) = delete;
  JournalCopy& operator=(const JournalCopy&) = delete;

  // Copies some more, which takes about a millisecond. True: the file equals the journal as it is
  // now, and stays so; take no further step. Does not sync the file to disk. Errors as of Begin().
  absl::StatusOr<bool> Step();

 private:
  JournalCopy(std::unique_ptr<Database> copy, sqlite3_backup* backup)
      : copy_(std::move(copy)), backup_(backup) {}
  int Finish();

  const std::unique_ptr<Database> copy_;
  sqlite3_backup* backup_;  // null: finished
};

}  // namespace remesh::server
