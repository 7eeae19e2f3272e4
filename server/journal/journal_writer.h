// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/task_queue.h"
#include "server/controller/action.h"
#include "server/journal/journal.h"

namespace remesh::server {

// Writes to a journal on a thread of its own; what comes while a write runs goes into one
// transaction. Thread-safe.
class JournalWriter {
 public:
  // Both are called on the writer's thread. `persisted`: everything up to the sequence is on disk;
  // `full`: only decisions should be written, see Journal::full(). Told again with the last
  // sequence and not full as soon as there is room. `failed`: nothing after it will be; called
  // once.
  struct Callbacks {
    absl::AnyInvocable<void(uint64_t sequence, bool full)> persisted;
    absl::AnyInvocable<void(absl::Status)> failed;
  };

  // While the disk is full it looks for room so often, though nothing be written.
  static constexpr absl::Duration kLookForRoom = absl::Seconds(5);

  JournalWriter(std::unique_ptr<Journal> journal, Callbacks callbacks,
                absl::Duration look_for_room = kLookForRoom);
  // Writes what was asked for, then stops.
  ~JournalWriter() = default;

  // REQUIRES: rising sequences, above the journal's past().sequence.
  void Write(Persist persist);

  // Copies the journal into a new file at `path`, in steps between the writes, none of which waits
  // long: what it is after the last step. Blocks. CANCELLED once `wanted` says no, which the writer's
  // thread asks; UNAVAILABLE after a failure of the journal; other errors of JournalCopy::Begin().
  absl::Status Copy(const std::string& path, absl::FunctionRef<bool()> wanted);

 private:
  struct Copying;
  // Tasks of queue_.
  void WriteWaiting();
  void LookForRoomLater();
  void LookForRoom();
  absl::Status WriteBatch(std::vector<Persist> batch);
  void CopySome(Copying& copying);
  absl::StatusOr<bool> CopyStep(Copying& copying);

  absl::Mutex mutex_;
  std::vector<Persist> waiting_ ABSL_GUARDED_BY(mutex_);

  // Touched by tasks only.
  const std::unique_ptr<Journal> journal_;
  Callbacks callbacks_;
  const absl::Duration look_for_room_;
  uint64_t told_;
  bool failed_ = false;
  bool looks_ = false;  // a task to look for room is to come

  TaskQueue queue_;  // last: its tasks use all of the above
};

}  // namespace remesh::server
