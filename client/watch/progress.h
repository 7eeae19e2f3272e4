// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "remesh/v1/reshard.pb.h"

namespace remesh::client {

// Shows on stderr how far an execution is: as a bar on a terminal, elsewhere as a line every 5 s.
class Progress {
 public:
  Progress();
  // Erases the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(const v1::Execution& execution);

 private:
  void PrintLines();

  const bool terminal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string line_;  // the newest; "": none yet
  bool ends_ = false;
  std::thread printer_;  // not on a terminal
};

// Share of the execution's windows that its hosts have done, 0 to 1.
double DoneShare(const v1::Execution& execution);

// The hosts that have done fewer windows than others, the slowest first: "host-c (12 of 40
// windows)". "": none is behind.
std::string BehindOf(const v1::Execution& execution);

// "transferring  41 %  1.20 GB  behind: host-c (12 of 40 windows)".
std::string ProgressLine(const v1::Execution& execution);

}  // namespace remesh::client
