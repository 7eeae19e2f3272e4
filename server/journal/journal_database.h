// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sqlite/database.h"

namespace remesh::server {

// A journal's SQLite file: WAL, synchronous=FULL, errors JOURNAL_... . It decides itself when its
// WAL is moved into the file, so that a full disk can be told from a failed write. Not thread-safe.
class JournalDatabase {
 public:
  // Opens or creates the file and locks it. Nothing of it changes, not even when it is closed,
  // until Own().
  static absl::StatusOr<std::unique_ptr<JournalDatabase>> Open(const std::string& path);

  JournalDatabase(const JournalDatabase&) = delete;
  JournalDatabase& operator=(const JournalDatabase&) = delete;

  Database& sql() { return *database_; }
  const std::string& path() const { return database_->path(); }

  // From now on the file is ours to write.
  absl::Status Own();

  // Moves what the WAL holds into the file when it has become long. JOURNAL_FULL when that takes
  // room that is not there; then the WAL goes on growing.
  absl::Status CheckpointWhenDue();
  // Gives pages that hold nothing any more back to the disk, up to 4 MB of them at a time. Of a
  // file that was made without auto_vacuum, none.
  absl::Status GiveBackFreePages();
  // Moves what the WAL holds into the file, and gives its room back to the disk.
  absl::Status EmptyWal();
  int64_t WalBytes() const;

 private:
  explicit JournalDatabase(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status Checkpoint(int mode);

  int wal_pages_ = 0;  // the database writes here
  const std::unique_ptr<Database> database_;
};

}  // namespace remesh::server
