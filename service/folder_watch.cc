// SPDX-License-Identifier: Apache-2.0
#include "service/folder_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"

namespace remesh::service {
namespace {

// Not IN_CREATE or IN_MODIFY: a file that is still being written is not worth reading.
Fd Watched(const std::string& folder) {
  Fd fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (fd && inotify_add_watch(fd.get(), folder.c_str(),
                              IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR) < 0) {
    fd.Reset();
  }
  return fd;
}

// Empties a nonblocking descriptor whose readers need to know only that there was something.
void Drain(const Fd& fd) {
  alignas(8) char ignored[4096];
  while (fd && read(fd.get(), ignored, sizeof(ignored)) > 0) {
  }
}

}  // namespace

FolderWatch::FolderWatch(const std::string& folder, std::chrono::milliseconds poll)
    : poll_(poll), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), changes_(Watched(folder)) {
  REMESH_CHECK(wake_);
}

void FolderWatch::Wait() {
  if (WaitFor(poll_, /*changes=*/true)) return;
  WaitFor(kSettle, /*changes=*/false);
  Drain(changes_);
}

// True: woken.
bool FolderWatch::WaitFor(std::chrono::milliseconds limit, bool changes) {
  // poll() ignores a descriptor of -1.
  pollfd fds[] = {
      {.fd = wake_.get(), .events = POLLIN, .revents = 0},
      {.fd = changes && changes_ ? changes_.get() : -1, .events = POLLIN, .revents = 0}};
  while (::poll(fds, 2, static_cast<int>(limit.count())) < 0) REMESH_CHECK(errno == EINTR);
  const bool woken = (fds[0].revents & POLLIN) != 0;
  if (woken) Drain(wake_);
  return woken;
}

void FolderWatch::Wake() { eventfd_write(wake_.get(), 1); }

}  // namespace remesh::service
