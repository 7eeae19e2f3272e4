// SPDX-License-Identifier: Apache-2.0
#include "worker/store/modify_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace remesh::worker {
namespace {

absl::Status Modified(const std::string& path, const char* reason, const char* what) {
  return MakeError(absl::StatusCode::kAborted,
                   absl::StrCat("another process wrote or cut ", path, ", ", what),
                   {reason, {{"path", path}}});
}

}  // namespace

ModifyWatch::ModifyWatch() : inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

ModifyWatch::~ModifyWatch() {
  if (inotify_ >= 0) close(inotify_);
}

bool ModifyWatch::Add(const MappedShards& shards, Side side) {
  if (shards.mapped != nullptr) return Add(*shards.mapped, side);
  absl::MutexLock lock(&mutex_);
  bool all = true;
  for (const MappedFile& file : shards.files) {
    if (file.path().empty()) continue;
    const std::optional<int> watch = file.Report(inotify_, IN_MODIFY);
    if (watch) files_[*watch] = {file.path(), side};
    all = all && watch;
  }
  return all;
}

absl::Status ModifyWatch::Check() {
  absl::MutexLock lock(&mutex_);
  Read();
  if (source_) return Modified(source_->path, "SOURCE_MODIFIED", "from which the move reads");
  if (target_) return Modified(target_->path, "TARGET_MODIFIED", "which the move fills");
  return absl::OkStatus();
}

bool ModifyWatch::source_modified() {
  absl::MutexLock lock(&mutex_);
  Read();
  return source_.has_value();
}

// Notes which files the kernel reports.
void ModifyWatch::Read() {
  alignas(inotify_event) std::array<char, 4096> events;
  for (ssize_t got; (got = read(inotify_, events.data(), events.size())) > 0;) {
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      const bool any = (event->mask & IN_Q_OVERFLOW) != 0;
      if (!any && (event->mask & IN_MODIFY) == 0) continue;
      for (const auto& [watch, file] : files_) {
        if (!any && watch != event->wd) continue;
        std::optional<File>& first = file.side == Side::kSource ? source_ : target_;
        if (!first) first = file;
      }
    }
  }
}

}  // namespace remesh::worker
