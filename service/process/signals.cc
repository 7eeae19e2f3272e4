// SPDX-License-Identifier: Apache-2.0
#include "service/process/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

#include "base/check.h"
#include "service/log/log.h"

namespace remesh::service {
namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t set = SetOf({SIGTERM, SIGINT, SIGHUP});
  REMESH_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  // A broken pipe to a log or a peer must not end the process.
  REMESH_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  trigger_ = eventfd(0, EFD_CLOEXEC);
  REMESH_CHECK(signals_ >= 0 && trigger_ >= 0);
}

ShutdownSignal::~ShutdownSignal() {
  close(signals_);
  close(trigger_);
}

int ShutdownSignal::Wait() {
  int number = SIGHUP;
  while ((number = WaitForAny()) == SIGHUP) {
    if (on_hang_up_) {
      on_hang_up_();
    } else {
      LogWarning("SIGHUP is ignored: there are no files to read again");
    }
  }
  const sigset_t set = SetOf({SIGTERM, SIGINT});
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return number;
}

int ShutdownSignal::WaitForAny() {
  pollfd fds[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                  {.fd = trigger_, .events = POLLIN, .revents = 0}};
  while (poll(fds, 2, -1) < 0) REMESH_CHECK(errno == EINTR);
  signalfd_siginfo info;
  const bool signalled =
      (fds[0].revents & POLLIN) != 0 && read(signals_, &info, sizeof(info)) == sizeof(info);
  return signalled ? static_cast<int>(info.ssi_signo) : 0;
}

void ShutdownSignal::Trigger() { eventfd_write(trigger_, 1); }

}  // namespace remesh::service
