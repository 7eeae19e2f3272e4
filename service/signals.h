// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"

namespace remesh::service {

// SIGTERM and SIGINT as something to wait for. Made first in main(), before any thread: it blocks
// both signals in this thread and those that it starts. A second signal after Wait() has returned
// kills the process as usual. SIGHUP does what OnHangUp() says, else nothing but a warning; SIGPIPE
// nothing at all. One at a time.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Before Wait(), in which it is called.
  void OnHangUp(absl::AnyInvocable<void()> action) { on_hang_up_ = std::move(action); }

  // Blocks until a signal or Trigger(); returns the signal's number, or 0 when triggered.
  int Wait();

  // Ends Wait(), now or later. Thread-safe.
  void Trigger();

 private:
  int WaitForAny();

  absl::AnyInvocable<void()> on_hang_up_;
  int signals_ = -1;  // signalfd
  int trigger_ = -1;  // eventfd
};

}  // namespace remesh::service
