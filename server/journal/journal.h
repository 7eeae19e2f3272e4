// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/controller/values/action.h"
#include "server/controller/values/journal_past.h"
#include "server/journal/ballast.h"
#include "server/journal/head_file.h"
#include "server/journal/journal_copy.h"
#include "server/journal/journal_database.h"
#include "server/journal/open_files.h"
#include "server/journal/rows.h"

namespace remesh::server {

// A SQLite file of keys and bytes that detects damage, and detects that it is not the newest copy:
// a second file, PATH.head, has the journal's position. One process at a time. Not thread-safe.
class Journal {
 public:
  struct Options {
    std::string cluster_uid;   // must match the journal's; a new journal gets it; empty: any
    std::string accept_older;  // the journal's uid, to open it even if it went back
    std::function<void()> committed = {};  // for tests: called before PATH.head is written
  };

  // Opens or creates the file, checks every page and row of it, and begins a leadership, which is
  // on disk when this returns. A file that is refused stays as it is:
  //   DATA_LOSS (JOURNAL_CORRUPT): damaged, or older pages among newer ones.
  //   FAILED_PRECONDITION: JOURNAL_BEHIND or JOURNAL_HEAD_DAMAGED (it lacks transactions, or may),
  //     JOURNAL_VERSION (written by another program), JOURNAL_LOCKED (open elsewhere),
  //     CLUSTER_UID_MISMATCH.
  //   INVALID_ARGUMENT (INVALID_FIELD): cluster_uid is not a UUID, or accept_older not this
  //   journal's
  //     uid.
  //   RESOURCE_EXHAUSTED (JOURNAL_FULL), UNAVAILABLE (JOURNAL_IO).
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const std::string& path, Options options);

  ~Journal();

  // The journal as it was when it was opened, and the leadership that began then.
  const JournalPast& past() const { return past_; }

  absl::StatusOr<std::map<std::string, std::string>> ReadAll() {
    return ReadRows(database_->sql());
  }

  // Writes all records, in order, in one transaction. They are on disk, and PATH.head too, when
  // this returns OK. RESOURCE_EXHAUSTED (JOURNAL_FULL) when not even dropping the ballast made
  // room; UNAVAILABLE (JOURNAL_IO). After an error the transaction may or may not be there: open
  // the journal again.
  // REQUIRES: `sequence` is above past().sequence and every earlier one.
  absl::Status Write(uint64_t sequence, const std::vector<Record>& records);

  const std::string& path() const { return database_->path(); }

  // Whether the journal's files are where they were when it was opened: see OpenFiles::Check().
  // Once they are not, Write() must not be called any more.
  absl::Status CheckOpenFiles() const;

  // Begins a copy into a new file at `path`; it must end before the journal does: see JournalCopy.
  absl::StatusOr<std::unique_ptr<JournalCopy>> BeginCopy(const std::string& path) {
    return JournalCopy::Begin(database_->sql(), path);
  }

  // Whether the ballast, PATH.ballast, is missing for lack of room: only decisions should be
  // written.
  bool full() const { return full_; }
  // Puts the ballast back if there is room again, or if giving back pages that the journal no
  // longer needs makes room. Returns whether the ballast exists. Write() also tries this.
  bool LookForRoom();

 private:
  Journal(std::unique_ptr<JournalDatabase> database, Options options);

  using Change = absl::FunctionRef<absl::Status(RowDigest& rows)>;
  absl::Status Start();
  absl::Status Prepare();
  void RaiseFirstBallast();
  absl::Status Lead(const std::vector<LeadershipRow>& earlier);
  absl::Status WriteRecord(const Record& record, RowDigest& rows);
  absl::Status Try(HeadRow next, Change change);
  absl::Status Commit(const HeadRow& next, Change change);
  absl::Status WriteHead();
  void MoveWal();
  bool DropBallast();
  bool RaiseBallast();

  const std::unique_ptr<JournalDatabase> database_;
  const Options options_;
  HeadFile head_file_;
  std::optional<OpenFiles> files_;  // once the journal is open
  Ballast ballast_;
  bool full_ = false;
  HeadRow head_;
  JournalPast past_;
  Database::Statement find_, put_, remove_, write_head_;
};

}  // namespace remesh::server
