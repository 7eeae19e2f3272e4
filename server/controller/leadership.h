// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "server/controller/journal_past.h"
#include "server/controller/journal_queue.h"
#include "server/controller/outbox.h"

namespace remesh::server {

// Whether this life of the server may decide anything, and by which epoch its commands are known.
// Not thread-safe.
class Leadership {
 public:
  // `epoch`: the highest that was ever led. `lost`: leaderships that were given up on purpose.
  Leadership(JournalPast past, uint64_t epoch, std::set<std::string> lost,
             const JournalQueue& journal);

  void Begin(Outbox& out) const;  // then LeadershipBegun
  void OnBegun() { leads_ = true; }
  bool leads() const { return leads_; }

  uint64_t epoch() const { return epoch_; }  // of every command; on disk before the first one
  uint64_t highest_epoch() const { return highest_epoch_; }  // on its way to the disk
  // Once `epoch` is on disk.
  void Adopt(uint64_t epoch);
  // Commands need an epoch above every other planner's that the worker obeyed. Only a journal that
  // went back, or is new, meets one. INVALID_ARGUMENT: highest_epoch is out of reach.
  absl::Status RaiseEpoch(const v1::Register& registration, std::vector<Record>& records);

  // Whether the journal is older than what the worker was told of it.
  bool HasGoneBackFor(const v1::Register& registration) const;
  // A host that is believed comes: whether anything may be written on its account. Not so from the
  // first one on that was told of a later journal than this one.
  bool Hear(const v1::Register& registration, std::vector<Record>& records, Outbox& out);
  // Such a host has come: nothing is decided, nothing written, no command sent any more.
  bool behind() const { return !behind_.empty(); }
  bool accepts_older() const { return past_.accepts_older; }
  // FAILED_PRECONDITION (JOURNAL_BEHIND).
  absl::Status CheckMayChange() const;

  const std::string& cluster_uid() const { return past_.cluster_uid; }
  // Puts our epoch, and the position of our journal, on a command.
  void Sign(v1::AttachResponse& command) const;

 private:
  const JournalPast past_;
  const JournalQueue& journal_;
  uint64_t epoch_;
  uint64_t highest_epoch_;
  bool leads_ = false;  // the epoch that Begin() wrote is on disk
  std::set<std::string> lost_;
  std::set<std::string> behind_;  // hosts that were told of a later journal
};

}  // namespace remesh::server
