// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "server/controller/action.h"
#include "server/journal/journal.h"

namespace remesh {

// Writes to a journal on a thread of its own; what comes while a write runs goes into one
// transaction. Thread-safe.
class JournalWriter {
 public:
  // Both are called on the writer's thread. `persisted`: everything up to the sequence is on disk.
  // `failed`: nothing after it will be; called once.
  struct Callbacks {
    absl::AnyInvocable<void(uint64_t sequence)> persisted;
    absl::AnyInvocable<void(absl::Status)> failed;
  };

  JournalWriter(std::unique_ptr<Journal> journal, Callbacks callbacks);
  // Writes what was asked for, then stops.
  ~JournalWriter();

  // REQUIRES: rising sequences.
  void Write(Persist persist);

 private:
  void Run();

  const std::unique_ptr<Journal> journal_;
  Callbacks callbacks_;
  absl::Mutex mutex_;
  std::vector<Persist> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace remesh
