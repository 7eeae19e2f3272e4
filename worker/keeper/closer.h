// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"

namespace remesh::worker {

// Closes descriptors on a thread of its own. A descriptor that another process sent can block the
// thread that closes it for as long as that process likes: a lingering socket, a file whose file
// system does not answer, or a connection with such a descriptor in its unread data. Thread-safe.
class Closer {
 public:
  Closer();
  // Waits at most a second for the descriptors that are not closed yet. The rest are closed later,
  // or when the process ends.
  ~Closer();

  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Queues `fd` to be closed. Does nothing if `fd` is empty.
  void Close(Fd fd);
  // Number of descriptors that are not closed yet.
  size_t waiting() const;

 private:
  // Shared with the thread, which may outlive the Closer.
  struct Shared {
    absl::Mutex mutex;
    std::deque<Fd> queue ABSL_GUARDED_BY(mutex);
    size_t waiting ABSL_GUARDED_BY(mutex) = 0;
    bool ends ABSL_GUARDED_BY(mutex) = false;
  };
  static void Run(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace remesh::worker
