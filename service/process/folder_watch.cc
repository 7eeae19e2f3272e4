// SPDX-License-Identifier: Apache-2.0
#include "service/process/folder_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "base/check.h"

namespace remesh::service {
namespace {

namespace fs = std::filesystem;

// Not IN_CREATE or IN_MODIFY: a file that is still being written is not worth reading.
constexpr uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_ONLYDIR;

// Adds the folder of the file, and the folders of links on the path to it.
void AddFolders(const std::string& file, std::set<std::string>& folders) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  fs::path way;
  for (const fs::path& part : whole.parent_path()) {
    way /= part;
    if (fs::is_symlink(way, error)) folders.insert(way.parent_path().string());
  }
  folders.insert(whole.parent_path().string());
}

// Empties a nonblocking descriptor that only signals that something has happened.
void Drain(const Fd& fd) {
  alignas(8) char ignored[4096];
  while (fd && read(fd.get(), ignored, sizeof(ignored)) > 0) {
  }
}

}  // namespace

FolderWatch::FolderWatch(std::vector<std::string> files, std::chrono::milliseconds poll)
    : files_(std::move(files)),
      poll_(poll),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      changes_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  REMESH_CHECK(wake_);
  Follow();
}

// Adding a folder again changes nothing; a folder that cannot be watched is polled.
void FolderWatch::Follow() {
  if (!changes_) return;
  std::set<std::string> folders;
  for (const std::string& file : files_) {
    if (!file.empty()) AddFolders(file, folders);
  }
  for (const std::string& folder : folders) {
    inotify_add_watch(changes_.get(), folder.c_str(), kEvents);
  }
}

void FolderWatch::Wait() {
  if (WaitFor(poll_, /*changes=*/true)) return;
  WaitFor(kSettle, /*changes=*/false);
  Drain(changes_);
  Follow();
}

// Returns true when woken.
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
