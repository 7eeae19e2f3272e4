// SPDX-License-Identifier: Apache-2.0
#include "server/journal/journal_writer.h"

#include <iterator>
#include <utility>

namespace remesh {

JournalWriter::JournalWriter(std::unique_ptr<Journal> journal, Callbacks callbacks)
    : journal_(std::move(journal)), callbacks_(std::move(callbacks)), thread_([this] { Run(); }) {}

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

void JournalWriter::Run() {
  while (true) {
    std::vector<Persist> batch;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](JournalWriter* writer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writer->mutex_) {
            return writer->stopping_ || !writer->waiting_.empty();
          },
          this));
      batch.swap(waiting_);
    }
    if (batch.empty()) return;
    std::vector<Record> records;
    for (Persist& persist : batch) {
      records.insert(records.end(), std::make_move_iterator(persist.records.begin()),
                     std::make_move_iterator(persist.records.end()));
    }
    if (absl::Status status = journal_->Write(records); !status.ok()) {
      callbacks_.failed(status);
      return;
    }
    callbacks_.persisted(batch.back().sequence);
  }
}

}  // namespace remesh
