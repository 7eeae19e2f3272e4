// SPDX-License-Identifier: Apache-2.0
#include "worker/files/page_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace remesh::worker {

PageWatch& PageWatch::Get() {
  static auto& only = *new PageWatch;  // lives as long as the process
  return only;
}

PageWatch::PageWatch() : inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

std::optional<int64_t> PageWatch::Watch(int fd) {
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  absl::MutexLock lock(&mutex_);
  Read();  // what happened before is no change
  const int file = inotify_add_watch(inotify_, path.c_str(), IN_MODIFY);
  if (file < 0) return std::nullopt;
  files_[++last_] = file;
  watches_[file].insert(last_);
  return last_;
}

bool PageWatch::TakeChanged(int64_t watch) {
  absl::MutexLock lock(&mutex_);
  Read();
  return changed_.erase(watch) > 0;
}

void PageWatch::End(int64_t watch) {
  absl::MutexLock lock(&mutex_);
  changed_.erase(watch);
  const auto file = watches_.find(files_.extract(watch).mapped());
  file->second.erase(watch);
  if (!file->second.empty()) return;
  inotify_rm_watch(inotify_, file->first);
  watches_.erase(file);
}

void PageWatch::Read() {
  alignas(inotify_event) std::array<char, 4096> events;
  for (ssize_t got; (got = read(inotify_, events.data(), events.size())) > 0;) {
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const bool any = (event->mask & IN_Q_OVERFLOW) != 0;  // too much was reported: any file
      for (const auto& [file, watches] : watches_) {
        if (any || file == event->wd) changed_.insert(watches.begin(), watches.end());
      }
    }
  }
}

}  // namespace remesh::worker
