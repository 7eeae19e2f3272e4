// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"

namespace remesh::service {

// Makes SIGTERM and SIGINT something to wait for. Create it first in main(), before any thread: it
// blocks both signals in this thread and the threads that it starts. A second signal after Wait()
// has returned kills the process as usual. SIGHUP runs the action of OnHangUp(), or only logs a
// warning without one; SIGPIPE is ignored. Only one may exist at a time.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Call before Wait(), which runs the action.
  void OnHangUp(absl::AnyInvocable<void()> action) { on_hang_up_ = std::move(action); }

  // Blocks until a signal or Trigger(); returns the signal's number, or 0 when triggered.
  int Wait();

  // Ends the current or the next Wait(). Thread-safe.
  void Trigger();

 private:
  int WaitForAny();

  absl::AnyInvocable<void()> on_hang_up_;
  int signals_ = -1;  // signalfd
  int trigger_ = -1;  // eventfd
};

}  // namespace remesh::service
