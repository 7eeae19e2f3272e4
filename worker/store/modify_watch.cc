// SPDX-License-Identifier: Apache-2.0
#include "worker/store/modify_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::worker {
namespace {

absl::Status Modified(const std::string& path, const char* reason, const char* what) {
  return MakeError(absl::StatusCode::kAborted,
                   absl::StrCat("another process wrote or cut ", path, ", ", what),
                   {reason, {{"path", path}}});
}

absl::Status NoneLeft(const std::string& path, const std::string& limit, const std::string& also) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the kernel has no inotify watch left for ", path,
                                ", so another process could change it unseen: raise ", limit, also,
                                " on this host, or end processes of the worker's user that watch"
                                " many files"),
                   {"WATCHES_EXHAUSTED", {{"path", path}, {"limit", limit}}});
}

// OK if no limit is the reason: then there is no inotify here.
absl::Status NoInstance(const std::string& path, int error) {
  if (error == EMFILE)
    return NoneLeft(path, "fs.inotify.max_user_instances",
                    " (sysctl), or the worker's limit of open files,");
  if (error == ENFILE) return NoneLeft(path, "fs.file-max", " (sysctl)");
  if (error == ENOMEM) return NoneLeft(path, "memory", "");
  return absl::OkStatus();
}

}  // namespace

ModifyWatch::ModifyWatch()
    : inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)), error_(inotify_ < 0 ? errno : 0) {}

ModifyWatch::~ModifyWatch() {
  if (inotify_ >= 0) close(inotify_);
}

absl::Status ModifyWatch::Add(const MappedShards& shards, Side side) {
  if (shards.mapped != nullptr) return Add(*shards.mapped, side);
  absl::MutexLock lock(&mutex_);
  for (const MappedFile& file : shards.files) {
    if (!file.path().empty()) RETURN_IF_ERROR(Watch(file, side));
  }
  return absl::OkStatus();
}

// Watches one file, if that is possible here at all.
absl::Status ModifyWatch::Watch(const MappedFile& file, Side side) {
  if (inotify_ < 0) return NoInstance(file.path(), error_);
  const absl::StatusOr<int> watch = file.Report(inotify_, IN_MODIFY);
  if (watch.ok()) files_[*watch] = {file.path(), side};
  if (absl::IsResourceExhausted(watch.status()))
    return NoneLeft(file.path(), "fs.inotify.max_user_watches", " (sysctl)");
  return absl::OkStatus();
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
