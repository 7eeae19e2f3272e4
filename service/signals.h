// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remesh {

// SIGTERM and SIGINT as something to wait for. Made first in main(), before any thread: it blocks
// both signals in this thread and those that it starts. A second signal after Wait() has returned
// kills the process as usual. SIGHUP does nothing but a warning; SIGPIPE nothing at all. One at a
// time.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ~ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  // Blocks until a signal or Trigger(); returns the signal's number, or 0 when triggered.
  int Wait();

  // Ends Wait(), now or later. Thread-safe.
  void Trigger();

 private:
  int WaitForAny();

  int signals_ = -1;  // signalfd
  int trigger_ = -1;  // eventfd
};

}  // namespace remesh
