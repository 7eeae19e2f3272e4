// SPDX-License-Identifier: Apache-2.0
#include "service/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/check.h"

namespace remesh {
namespace {

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  const sigset_t set = Signals();
  REMESH_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  trigger_ = eventfd(0, EFD_CLOEXEC);
  REMESH_CHECK(signals_ >= 0 && trigger_ >= 0);
}

ShutdownSignal::~ShutdownSignal() {
  close(signals_);
  close(trigger_);
}

int ShutdownSignal::Wait() {
  pollfd fds[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                  {.fd = trigger_, .events = POLLIN, .revents = 0}};
  while (poll(fds, 2, -1) < 0) REMESH_CHECK(errno == EINTR);
  int number = 0;
  if ((fds[0].revents & POLLIN) != 0) {
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) == sizeof(info))
      number = static_cast<int>(info.ssi_signo);
  }
  const sigset_t set = Signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return number;
}

void ShutdownSignal::Trigger() { eventfd_write(trigger_, 1); }

}  // namespace remesh
