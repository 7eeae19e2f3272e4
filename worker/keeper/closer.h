// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/fd.h"

namespace remesh::worker {

// Closes descriptors on a thread of its own. One that others sent may keep whoever closes it
// waiting for as long as they like: a socket that lingers, a file whose file system does not answer;
// so may a connection on which one waits unread. Thread-safe.
class Closer {
 public:
  Closer();
  // Waits a second at most for what is not closed yet; what is left then is closed later, or with
  // the process.
  ~Closer();

  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Nothing happens if there is none.
  void Close(Fd fd);
  // Descriptors that are not closed yet.
  size_t waiting() const;

 private:
  // The thread's too, which may outlive this.
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
