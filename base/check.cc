// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace remesh::internal {
namespace {

// Lets the process abort in a second even if this thread never returns from a write. Asking poll()
// first would not do, because others may fill a pipe between poll() and write().
void AbortInASecond() {
  struct sigaction abort_then = {};
  abort_then.sa_handler = [](int) { std::abort(); };
  sigaction(SIGALRM, &abort_then, nullptr);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(1);
}

void Write(const char* line) {
  for (size_t left = strlen(line); left > 0;) {
    const ssize_t written = write(STDERR_FILENO, line, left);
    if (written >= 0) {
      line += written;
      left -= static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // another process made the file non-blocking
      pollfd out{STDERR_FILENO, POLLOUT, 0};
      poll(&out, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void CheckFailed(const char* line) {
  AbortInASecond();
  Write(line);
  alarm(0);
  std::abort();
}

}  // namespace remesh::internal
