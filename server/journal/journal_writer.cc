// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_writer.h"

#include <iterator>
#include <utility>

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
  if (failed_) return;
  told_ = batch.back().sequence;
  if (absl::Status status = WriteBatch(std::move(batch)); !status.ok()) {
    failed_ = true;
    return callbacks_.failed(std::move(status));
  }
  callbacks_.persisted(told_, journal_->full());
  LookForRoomLater();
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
  if (failed_ || !journal_->full()) return;
  if (journal_->LookForRoom()) callbacks_.persisted(told_, false);
  LookForRoomLater();
}

}  // namespace remesh::server
