// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/leadership/journal_queue.h"
#include "server/controller/values/journal_past.h"
#include "server/controller/values/outbox.h"

namespace remesh::server {

// Decides whether this life of the server may make decisions, and keeps the epoch of its commands.
// Not thread-safe.
class Leadership {
 public:
  // `epoch`: the highest epoch of any leadership. `lost`: leaderships that were given up on
  // purpose.
  Leadership(JournalPast past, uint64_t epoch, std::set<std::string> lost,
             const JournalQueue& journal);

  void Begin(Outbox& out) const;  // then LeadershipBegun
  void OnBegun() { leads_ = true; }
  bool leads() const { return leads_; }

  uint64_t epoch() const { return epoch_; }  // of every command; on disk before the first one
  uint64_t highest_epoch() const { return highest_epoch_; }  // on its way to the disk
  // Uses `epoch` from now on. Call it once `epoch` is on disk.
  void Adopt(uint64_t epoch);
  // What a worker claims to have been sent must be possible: INVALID_ARGUMENT for a transaction
  // that this leadership has not written yet, RESOURCE_EXHAUSTED when too many leaderships were
  // given up.
  absl::Status CheckPosition(const v1::JournalPosition& position) const;
  // Commands need an epoch above every epoch of another leadership that the worker has obeyed. Only
  // a journal that went back, or is new, meets a higher one. INVALID_ARGUMENT: highest_epoch is too
  // far ahead.
  absl::Status RaiseEpoch(const v1::Register& registration, std::vector<Record>& records);

  // Whether the worker knows of a later journal than this one.
  bool HasGoneBackFor(const v1::Register& registration) const;
  // A host whose identity is proven has come. Returns whether anything may be written on its
  // account: no, from the first host on that knows of a later journal than this one.
  bool OnProvenHost(const v1::Register& registration, std::vector<Record>& records, Outbox& out);
  // The journal's files are gone: what would be written could not be read again. `why` is the error
  // of every change from now on.
  void OnJournalLost(const absl::Status& why) { lost_files_ = why; }
  bool journal_lost() const { return !lost_files_.ok(); }
  // Whether such a host has come, or the journal's files are gone: then nothing is decided, nothing
  // is written and no command is sent any more.
  bool behind() const { return !behind_.empty() || journal_lost(); }
  bool accepts_older() const { return past_.accepts_older; }
  // Whether this journal took the place of a later one, on purpose, now or ever.
  bool replaced_later() const { return past_.accepts_older || !lost_.empty(); }
  // FAILED_PRECONDITION (JOURNAL_BEHIND, JOURNAL_LOST).
  absl::Status CheckMayChange() const;

  const std::string& cluster_uid() const { return past_.cluster_uid; }
  // Puts our epoch and our journal's position on a command.
  void Sign(v1::AttachResponse& command) const;

 private:
  const JournalPast past_;
  const JournalQueue& journal_;
  uint64_t epoch_;
  uint64_t highest_epoch_;
  bool leads_ = false;  // the epoch that Begin() wrote is on disk
  std::set<std::string> lost_;
  std::set<std::string> behind_;  // hosts that know of a later journal
  absl::Status lost_files_;       // not OK: the journal's files are gone
};

}  // namespace remesh::server
