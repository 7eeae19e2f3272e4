// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_writer.h"

#include <iterator>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/status_macros.h"
#include "server/journal/journal_copy.h"

namespace remesh::server {

JournalWriter::JournalWriter(std::unique_ptr<Journal> journal, Callbacks callbacks,
                             absl::Duration look_for_room)
    : journal_(std::move(journal)),
      callbacks_(std::move(callbacks)),
      look_for_room_(look_for_room),
      told_(journal_->past().sequence) {
  queue_.Post([this] { LookForRoomLater(); });
}

void JournalWriter::Write(Persist persist) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(persist));
  if (waiting_.size() == 1) queue_.Post([this] { WriteWaiting(); });
}

void JournalWriter::WriteWaiting() {
  std::vector<Persist> batch;
  {
    absl::MutexLock lock(&mutex_);
    batch = std::exchange(waiting_, {});
  }
  if (failed_ || !HasFiles()) return;
  told_ = batch.back().sequence;
  if (absl::Status status = WriteBatch(std::move(batch)); !status.ok()) {
    failed_ = true;
    return callbacks_.failed(std::move(status));
  }
  if (!HasFiles()) return;
  callbacks_.persisted(told_, journal_->full());
  LookForRoomLater();
}

void JournalWriter::LookForFiles() {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(looks_for_files_, true)) return;
  queue_.Post([this] {
    {
      absl::MutexLock lock(&mutex_);
      looks_for_files_ = false;
    }
    if (!failed_) HasFiles();
  });
}

// Whether anything may be written still. Reports the loss of the files once.
bool JournalWriter::HasFiles() {
  if (lost_) return false;
  absl::Status status = journal_->CheckOpenFiles();
  if (status.ok()) return true;
  lost_ = true;
  if (callbacks_.lost != nullptr) callbacks_.lost(std::move(status));
  return false;
}

absl::Status JournalWriter::WriteBatch(std::vector<Persist> batch) {
  std::vector<Record> records;
  for (Persist& persist : batch) {
    records.insert(records.end(), std::make_move_iterator(persist.records.begin()),
                   std::make_move_iterator(persist.records.end()));
  }
  return journal_->Write(batch.back().sequence, records);
}

void JournalWriter::LookForRoomLater() {
  if (!journal_->full() || looks_) return;
  looks_ = queue_.PostAfter(look_for_room_, [this] { LookForRoom(); });
}

void JournalWriter::LookForRoom() {
  looks_ = false;
  if (failed_ || !journal_->full() || !HasFiles()) return;
  if (journal_->LookForRoom()) callbacks_.persisted(told_, false);
  LookForRoomLater();
}

// A caller of Copy(), which waits.
struct JournalWriter::Copying {
  const std::string& path;
  absl::FunctionRef<bool()> wanted;
  std::unique_ptr<JournalCopy> copy = nullptr;
  absl::Status status = absl::OkStatus();
  absl::Notification ended = {};
};

absl::Status JournalWriter::Copy(const std::string& path, absl::FunctionRef<bool()> wanted) {
  Copying copying{.path = path, .wanted = wanted};
  if (!queue_.Post([&] { CopySome(copying); }))
    return absl::UnavailableError("the journal is closed");
  copying.ended.WaitForNotification();
  return copying.status;
}

void JournalWriter::CopySome(Copying& copying) {
  const absl::StatusOr<bool> whole = CopyStep(copying);
  if (whole.ok() && !*whole && queue_.Post([&] { CopySome(copying); })) return;
  copying.copy = nullptr;
  copying.status =
      whole.ok() && !*whole ? absl::UnavailableError("the journal is closed") : whole.status();
  copying.ended.Notify();
}

absl::StatusOr<bool> JournalWriter::CopyStep(Copying& copying) {
  if (failed_) return absl::UnavailableError("the journal cannot be written any more");
  if (!copying.wanted()) return absl::CancelledError("no caller waits for the copy any more");
  if (copying.copy == nullptr) {
    ASSIGN_OR_RETURN(copying.copy, journal_->BeginCopy(copying.path));
  }
  return copying.copy->Step();
}

}  // namespace remesh::server
