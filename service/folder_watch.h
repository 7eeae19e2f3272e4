// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "base/fd.h"

namespace remesh::service {

// Waits for changes of files in one folder: by inotify, so that what Kubernetes mounts (files behind
// the link ..data, which it replaces) is seen at once, and after `poll` anyway, for file systems
// and links that inotify does not follow.
class FolderWatch {
 public:
  FolderWatch(const std::string& folder, std::chrono::milliseconds poll);

  // Returns when files may have changed, after `poll`, or after Wake(). Changes that come together
  // make it return once.
  void Wait();
  // Ends Wait(), now or the next one. Thread-safe.
  void Wake();

 private:
  static constexpr std::chrono::milliseconds kSettle{100};

  bool WaitFor(std::chrono::milliseconds limit, bool changes);

  const std::chrono::milliseconds poll_;
  const Fd wake_;     // an eventfd
  const Fd changes_;  // an inotify, or none: then it polls only
};

}  // namespace remesh::service
