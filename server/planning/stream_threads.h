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

// Threads that make the pieces of streams, and each caller's streams that are under way. A stream
// that waits for its reader has no thread, but it holds memory: of one caller kOfCallerMax are under
// way, and his others wait until one of them ends. Those of one caller wait for nobody else's.
// Thread-safe.
class StreamThreads {
 public:
  static constexpr size_t kOfCallerMax = 8;

  // `waiting_max`: tasks that wait for a thread; a caller may have a quarter of that, and as many
  // streams that wait. He has at most a quarter of the threads, too.
  StreamThreads(int threads, size_t waiting_max);

  // Makes pieces, and does other work that takes no longer.
  ThreadPool& pool() { return pool_; }

  // Once one more of the caller's streams may be under way `begin` is called, now or on the thread
  // that ends another. It returns whether the stream is under way: then Leave() must follow when it
  // has ended. False: too many of the caller's wait, and `begin` is dropped.
  using Begin = absl::AnyInvocable<bool()>;
  bool Enter(const std::string& caller, Begin begin);
  void Leave(const std::string& caller);

  // Runs the task after that time, unless Stop() comes before. It must not block.
  void After(absl::Duration delay, TaskQueue::Task task);

  // See ThreadPool::Stop().
  void Stop();

 private:
  struct Streams {
    size_t under_way = 0;
    std::deque<Begin> waiting;
  };
  void BeginNext(const std::string& caller);

  const size_t waiting_of_caller_max_;
  absl::Mutex mutex_;
  std::map<std::string, Streams> callers_ ABSL_GUARDED_BY(mutex_);  // with a stream
  ThreadPool pool_;
  TaskQueue timer_;
};

}  // namespace remesh::server
