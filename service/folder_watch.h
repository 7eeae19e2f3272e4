// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"

namespace remesh::service {

// Waits for changes of some files: by inotify on the folders that hold them, so that what Kubernetes
// mounts (files behind the link ..data, which it replaces) is seen at once, and on those that hold
// links on the way there; and after `poll` anyway, for file systems and further links that inotify
// does not follow.
class FolderWatch {
 public:
  FolderWatch(std::vector<std::string> files, std::chrono::milliseconds poll);

  // Returns when files may have changed, after `poll`, or after Wake(). Changes that come together
  // make it return once.
  void Wait();
  // Ends Wait(), now or the next one. Thread-safe.
  void Wake();

 private:
  static constexpr std::chrono::milliseconds kSettle{100};

  // Again and again: a link may lead to another folder now.
  void Follow();
  bool WaitFor(std::chrono::milliseconds limit, bool changes);

  const std::vector<std::string> files_;
  const std::chrono::milliseconds poll_;
  const Fd wake_;     // an eventfd
  const Fd changes_;  // an inotify, or none: then it polls only
};

}  // namespace remesh::service
