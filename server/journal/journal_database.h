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

// A journal's SQLite file, with WAL, synchronous=FULL and errors JOURNAL_... . It decides itself
// when to move its WAL into the file, so that a full disk can be distinguished from a failed write.
// Not thread-safe.
class JournalDatabase {
 public:
  // Opens or creates the file and locks it. Changes nothing in it until Own(), not even when it is
  // closed.
  static absl::StatusOr<std::unique_ptr<JournalDatabase>> Open(const std::string& path);

  JournalDatabase(const JournalDatabase&) = delete;
  JournalDatabase& operator=(const JournalDatabase&) = delete;

  Database& sql() { return *database_; }
  const std::string& path() const { return database_->path(); }

  // Allows writing to the file from now on.
  absl::Status Own();
  // Closing the file leaves it and the WAL as they are.
  void Disown();

  // Moves the contents of the WAL into the file when the WAL has become long. JOURNAL_FULL when
  // there is no room for that; then the WAL keeps growing.
  absl::Status CheckpointWhenDue();
  // Gives unused pages back to the disk, up to 4 MB of them a call. Gives back none of a file that
  // was made without auto_vacuum.
  absl::Status GiveBackFreePages();
  // Moves the contents of the WAL into the file and gives the WAL's room back to the disk.
  absl::Status EmptyWal();
  int64_t WalBytes() const;

 private:
  explicit JournalDatabase(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status Checkpoint(int mode);

  int wal_pages_ = 0;  // SQLite's hook writes this
  const std::unique_ptr<Database> database_;
};

}  // namespace remesh::server
