// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/reshard.pb.h"

namespace remesh::client {

// A bar on stderr that shows the progress of an execution; prints nothing unless stderr is a
// terminal.
class ProgressBar {
 public:
  ProgressBar();
  // Erases the bar.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(const v1::Execution& execution);

 private:
  const bool terminal_;
};

// Share of the execution's windows that its hosts have done, 0 to 1.
double DoneShare(const v1::Execution& execution);

}  // namespace remesh::client
