// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace remesh::service {

// stderr, whose reader may be slow or stop: threads that log, the strands among them, must not wait
// for it. Asking poll() first would not help them, because other processes may fill the same pipe
// between poll() and write(). Thread-safe. Never destroyed, because threads may outlive main().
class LogOutput {
 public:
  // How much waits for the reader; lines beyond one of these are lost. The last line that is taken
  // may exceed kBytesMax.
  static constexpr size_t kLinesMax = 8192;
  static constexpr size_t kBytesMax = size_t{1} << 20;

  static LogOutput& Stderr();

  // From now on a thread of its own writes the lines, and no caller waits. Before that, callers
  // write them. REQUIRES: called once at most. A child that is forked afterwards must not log.
  void StartThread();

  // Returns the number of lines that were lost and that no line reports yet. The next line reports
  // them.
  int64_t TakeLost();
  // The line ends in a newline. `told`: the number of lost lines that it reports; if it is lost,
  // too, the next line reports them all.
  void Write(std::string line, int64_t told);

  // Waits until every line is written or lost, a second at most. Async-signal-safe.
  void Flush() const;

 private:
  struct Line {
    std::string text;
    int64_t told;
  };

  LogOutput() = default;
  void Run();
  Line Pop();
  bool WriteNow(const std::string& line);

  absl::Mutex mutex_;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Line> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<int64_t> unwritten_{0};  // those that wait, and the one that is being written
  // The last line was written only in part. Of the thread, or until it starts guarded by mutex_.
  bool torn_ = false;
};

}  // namespace remesh::service
