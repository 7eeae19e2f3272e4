// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/task_queue.h"
#include "server/planning/thread_pool.h"

namespace remesh::server {

// Threads that make the pieces of streams, and a limit on the streams of each caller. A stream
// that waits for its reader holds memory but no thread. So a caller may have kOfCallerMax streams
// under way; the caller's further streams wait until one of these ends, and never for streams of
// other callers. Thread-safe.
class StreamThreads {
 public:
  static constexpr size_t kOfCallerMax = 8;

  // `waiting_max`: how many tasks may wait for a thread. A caller may have a quarter of that, as
  // many waiting streams, and a quarter of the threads, but at least one of each.
  StreamThreads(int threads, size_t waiting_max);

  // Runs tasks that make pieces, and other tasks that take no longer.
  ThreadPool& pool() { return pool_; }

  // Calls `begin` as soon as one more stream of the caller may be under way: in this call, or in
  // the Leave() of another stream. `begin` returns whether the stream is now under way; if so,
  // Leave() must follow when the stream has ended. Returns false, and drops `begin`, if too many
  // streams of the caller wait. `stream` only tells the caller's streams apart.
  using Begin = absl::AnyInvocable<bool()>;
  bool Enter(const std::string& caller, const void* stream, Begin begin);
  void Leave(const std::string& caller);
  // Drops the `begin` of a stream that still waits, whose place to wait is free then. Does nothing
  // for another stream.
  void Forget(const std::string& caller, const void* stream);

  // Runs the task after `delay`, unless Stop() is called before. The task must not block.
  void After(absl::Duration delay, TaskQueue::Task task);

  // See ThreadPool::Stop().
  void Stop();

 private:
  struct Waiting {
    const void* stream;
    Begin begin;
  };
  struct Streams {
    size_t under_way = 0;
    std::deque<Waiting> waiting;
  };
  void BeginNext(const std::string& caller);

  const size_t waiting_of_caller_max_;
  absl::Mutex mutex_;
  std::map<std::string, Streams> callers_ ABSL_GUARDED_BY(mutex_);  // no entry without a stream
  ThreadPool pool_;
  TaskQueue timer_;
};

}  // namespace remesh::server
