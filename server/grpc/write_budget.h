// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace remesh::server {

// Memory for commands that many streams make and write at a time: each takes a share before it makes
// them, and returns it when they are written. Those that find no room wait, the first first. A
// stream whose worker does not read holds its share until it ends, which is after lost_after at the
// latest; shares of few bytes return sooner, for the sockets take them. Thread-safe.
class WriteBudget {
 public:
  explicit WriteBudget(size_t bytes) : free_(bytes), bytes_(bytes) {}

  // Calls `go` once the caller has its share: at once, or within some Return() on another thread.
  // More bytes than there are count as all of them.
  void Take(size_t bytes, absl::AnyInvocable<void()> go);
  // Returns the share of an earlier Take() of as many bytes.
  void Return(size_t bytes);

  // Callers that have no share yet.
  size_t waiting();

 private:
  struct Waiting {
    size_t bytes = 0;
    absl::AnyInvocable<void()> go;
  };

  size_t ShareOf(size_t bytes) const { return bytes < bytes_ ? bytes : bytes_; }

  absl::Mutex mutex_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;  // a Return() lets those that wait go
  const size_t bytes_;
};

}  // namespace remesh::server
