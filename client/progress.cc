// SPDX-License-Identifier: Apache-2.0
#include "client/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "client/output.h"

namespace remesh::client {
namespace {

constexpr int kWidth = 32;
constexpr char kWipe[] = "\r\x1b[K";

bool IsTerminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string(term) != "dumb");
}

}  // namespace

ProgressBar::ProgressBar() : terminal_(IsTerminal()) {}

ProgressBar::~ProgressBar() {
  if (terminal_) std::cerr << kWipe << std::flush;
}

void ProgressBar::Show(const v1::Execution& execution) {
  if (!terminal_) return;
  const double done = DoneShare(execution);
  int64_t bytes = 0;
  for (const v1::HostProgress& host : execution.hosts()) {
    bytes += host.received_bytes() + host.copied_bytes();
  }
  const std::string phase = absl::AsciiStrToLower(v1::Execution::Phase_Name(execution.phase()));
  const int filled = static_cast<int>(std::lround(done * kWidth));
  std::cerr << kWipe
            << absl::StrFormat("%-13s[%s%s] %3.0f %%  %s", phase, std::string(filled, '#'),
                               std::string(kWidth - filled, ' '), 100 * done, FormatBytes(bytes))
            << std::flush;
}

double DoneShare(const v1::Execution& execution) {
  if (execution.phase() == v1::Execution::SUCCEEDED) return 1;  // also without any window
  const double windows = static_cast<double>(execution.windows()) * execution.hosts_size();
  double done = 0;
  for (const v1::HostProgress& host : execution.hosts()) done += host.windows_done();
  return windows > 0 ? std::clamp(done / windows, 0.0, 1.0) : 0.0;
}

}  // namespace remesh::client
