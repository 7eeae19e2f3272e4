// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remesh::client {

// While this exists, Ctrl-C, SIGTERM and SIGHUP write a text to stderr before they end the process
// as they always do. A signal that is ignored stays ignored. At most one exists at a time.
class InterruptNote {
 public:
  explicit InterruptNote(std::string text);
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

 private:
  const std::string text_;
};

}  // namespace remesh::client
