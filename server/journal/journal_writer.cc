// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_writer.h"

#include <iterator>
#include <utility>

namespace remesh {

JournalWriter::JournalWriter(std::unique_ptr<Journal> journal, Callbacks callbacks,
                             absl::Duration look_for_room)
    : journal_(std::move(journal)),
      callbacks_(std::move(callbacks)),
      look_for_room_(look_for_room),
      thread_([this] { Run(); }) {}

JournalWriter::~JournalWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void JournalWriter::Write(Persist persist) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(persist));
}

// False: there will be no more. An empty batch: it is time to look for room.
bool JournalWriter::WaitForWork(std::vector<Persist>& batch) {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !waiting_.empty();
  };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&has_work),
                          journal_->full() ? look_for_room_ : absl::InfiniteDuration());
  batch = std::exchange(waiting_, {});
  return !batch.empty() || !stopping_;
}

absl::Status JournalWriter::WriteBatch(std::vector<Persist> batch) {
  std::vector<Record> records;
  for (Persist& persist : batch) {
    records.insert(records.end(), std::make_move_iterator(persist.records.begin()),
                   std::make_move_iterator(persist.records.end()));
  }
  return journal_->Write(batch.back().sequence, records);
}

void JournalWriter::Run() {
  uint64_t told = journal_->past().sequence;
  std::vector<Persist> batch;
  while (WaitForWork(batch)) {
    if (batch.empty()) {
      if (journal_->LookForRoom()) callbacks_.persisted(told, false);
      continue;
    }
    told = batch.back().sequence;
    if (absl::Status status = WriteBatch(std::move(batch)); !status.ok()) {
      callbacks_.failed(status);
      return;
    }
    callbacks_.persisted(told, journal_->full());
  }
}

}  // namespace remesh
