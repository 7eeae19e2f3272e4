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
#include "server/controller/values/action.h"
#include "server/journal/journal.h"

namespace remesh::server {

// Writes to a journal on a thread of its own. Transactions that arrive during a write are joined
// into one. Thread-safe.
class JournalWriter {
 public:
  // All are called on the writer's thread. `persisted`: everything up to the sequence is on disk;
  // `full`: only decisions should be written, see Journal::full(). Called again with the last
  // sequence and full = false as soon as there is room. `failed`: nothing will be written any more;
  // called once. `lost`: the journal's files are gone, so nothing will be written any more, but
  // what there is can be copied; called once. May be null.
  struct Callbacks {
    absl::AnyInvocable<void(uint64_t sequence, bool full)> persisted;
    absl::AnyInvocable<void(absl::Status)> failed;
    absl::AnyInvocable<void(absl::Status)> lost = nullptr;
  };

  // How often to look for room while the disk is full, even if nothing is written.
  static constexpr absl::Duration kLookForRoom = absl::Seconds(5);

  JournalWriter(std::unique_ptr<Journal> journal, Callbacks callbacks,
                absl::Duration look_for_room = kLookForRoom);
  // Writes everything that was asked for, then stops.
  ~JournalWriter() = default;

  // REQUIRES: sequences rise, from above the journal's past().sequence.
  void Write(Persist persist);

  // Looks soon whether the journal's files are still there. Every write looks, too, before and
  // after
  // it: what goes into a file without a name is never called persisted.
  void LookForFiles();

  // Copies the journal into a new file at `path`, in steps between the writes, none of which waits
  // long. The copy has the journal's contents as of the last step. Blocks. CANCELLED once `wanted`,
  // which is called on the writer's thread, returns false; UNAVAILABLE after a failure of the
  // journal; other errors of JournalCopy::Begin().
  absl::Status Copy(const std::string& path, absl::FunctionRef<bool()> wanted);

 private:
  struct Copying;
  // Tasks of queue_.
  void WriteWaiting();
  bool HasFiles();
  void LookForRoomLater();
  void LookForRoom();
  absl::Status WriteBatch(std::vector<Persist> batch);
  void CopySome(Copying& copying);
  absl::StatusOr<bool> CopyStep(Copying& copying);

  absl::Mutex mutex_;
  std::vector<Persist> waiting_ ABSL_GUARDED_BY(mutex_);
  bool looks_for_files_ ABSL_GUARDED_BY(mutex_) = false;  // a task that does is posted

  // Used only by tasks.
  const std::unique_ptr<Journal> journal_;
  Callbacks callbacks_;
  const absl::Duration look_for_room_;
  uint64_t told_;
  bool failed_ = false;
  bool lost_ = false;
  bool looks_ = false;  // a task that looks for room is scheduled

  TaskQueue queue_;  // last: its tasks use all of the above
};

}  // namespace remesh::server
