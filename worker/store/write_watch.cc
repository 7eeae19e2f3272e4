// SPDX-License-Identifier: Apache-2.0
#include "worker/store/write_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace remesh::worker {

WriteWatch::WriteWatch(const MappedShards& shards)
    : watch_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  certain_ = watch_ >= 0 && Begin(shards, watch_);
}

WriteWatch::~WriteWatch() {
  if (watch_ >= 0) close(watch_);
}

bool WriteWatch::Begin(const MappedShards& shards, int watch) {
  if (shards.mapped != nullptr) return Begin(*shards.mapped, watch);
  const auto on_device = [](const auto& memory) { return memory != nullptr; };
  if (shards.files.empty() || shards.lease != nullptr ||
      std::ranges::any_of(shards.on_device, on_device)) {
    return false;
  }
  return std::ranges::all_of(shards.files, [watch](const MappedFile& file) {
    // In this order: who opens the file in between is seen by both.
    return file.Report(watch, IN_OPEN | IN_MODIFY).ok() && file.HeldByNoOther().value_or(false);
  });
}

bool WriteWatch::NoOtherProcessWrote() {
  if (!certain_) return false;
  // There is something to read if a file was opened, and also if there was too much to report.
  inotify_event event;
  const ssize_t got = read(watch_, &event, sizeof event);
  certain_ = got < 0 && errno == EAGAIN;
  return certain_;
}

}  // namespace remesh::worker
