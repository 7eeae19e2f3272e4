// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"

namespace remesh::service {

// Waits until files may have changed. Uses inotify on the folders that hold the files, so that it
// sees at once when Kubernetes replaces a mount (files behind the link ..data), and on the folders
// that hold links on the way there. Returns after `poll` in any case, for file systems and further
// links that inotify does not follow.
class FolderWatch {
 public:
  FolderWatch(std::vector<std::string> files, std::chrono::milliseconds poll);

  // Returns when files may have changed, after `poll`, or after Wake(). Several changes in quick
  // succession make it return once.
  void Wait();
  // Ends the current or else the next Wait(). Thread-safe.
  void Wake();

 private:
  static constexpr std::chrono::milliseconds kSettle{100};

  // Called before every wait, because a link may lead to another folder by now.
  void Follow();
  bool WaitFor(std::chrono::milliseconds limit, bool changes);

  const std::vector<std::string> files_;
  const std::chrono::milliseconds poll_;
  const Fd wake_;     // an eventfd
  const Fd changes_;  // an inotify, or none: then the watch only polls
};

}  // namespace remesh::service
