// SPDX-License-Identifier: Apache-2.0
#include "client/watch/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/output.h"

namespace remesh::client {
namespace {

constexpr int kWidth = 32;
constexpr char kWipe[] = "\r\x1b[K";
constexpr auto kLineInterval = std::chrono::seconds(5);
constexpr size_t kBehindShown = 3;

bool IsTerminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string(term) != "dumb");
}

std::string PhaseOf(const v1::Execution& execution) {
  return absl::AsciiStrToLower(v1::Execution::Phase_Name(execution.phase()));
}

std::string BytesOf(const v1::Execution& execution) {
  int64_t bytes = 0;
  for (const v1::HostProgress& host : execution.hosts())
    bytes += host.received_bytes() + host.copied_bytes();
  return FormatBytes(bytes);
}

std::string BarOf(const v1::Execution& execution) {
  const double done = DoneShare(execution);
  const int filled = static_cast<int>(std::lround(done * kWidth));
  return absl::StrFormat("%-13s[%s%s] %3.0f %%  %s", PhaseOf(execution), std::string(filled, '#'),
                         std::string(kWidth - filled, ' '), 100 * done, BytesOf(execution));
}

}  // namespace

Progress::Progress() : terminal_(IsTerminal()) {
  if (!terminal_) printer_ = std::thread([this] { PrintLines(); });
}

Progress::~Progress() {
  if (terminal_) {
    std::cerr << kWipe << std::flush;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  printer_.join();
}

void Progress::Show(const v1::Execution& execution) {
  if (terminal_) {
    std::cerr << kWipe << BarOf(execution) << std::flush;
    return;
  }
  const std::lock_guard lock(mutex_);
  line_ = ProgressLine(execution);
}

// Prints also while nothing changes, so that a move that stalls is not silent.
void Progress::PrintLines() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLineInterval, [this] { return ends_; })) {
    if (!line_.empty()) std::cerr << line_ << std::endl;
  }
}

double DoneShare(const v1::Execution& execution) {
  if (execution.phase() == v1::Execution::SUCCEEDED) return 1;  // also without any window
  const double windows = static_cast<double>(execution.windows()) * execution.hosts_size();
  double done = 0;
  for (const v1::HostProgress& host : execution.hosts()) done += host.windows_done();
  return windows > 0 ? std::clamp(done / windows, 0.0, 1.0) : 0.0;
}

std::string BehindOf(const v1::Execution& execution) {
  int32_t most = 0;
  for (const v1::HostProgress& host : execution.hosts()) most = std::max(most, host.windows_done());
  std::vector<const v1::HostProgress*> behind;
  for (const v1::HostProgress& host : execution.hosts()) {
    if (host.windows_done() < most) behind.push_back(&host);
  }
  std::stable_sort(behind.begin(), behind.end(), [](const auto* a, const auto* b) {
    return a->windows_done() < b->windows_done();
  });
  std::string text;
  for (size_t i = 0; i < std::min(behind.size(), kBehindShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", behind[i]->host(), " (", behind[i]->windows_done(),
                    " of ", execution.windows(), " windows)");
  }
  if (behind.size() > kBehindShown)
    absl::StrAppend(&text, " and ", behind.size() - kBehindShown, " more");
  return text;
}

std::string ProgressLine(const v1::Execution& execution) {
  const std::string behind = BehindOf(execution);
  return absl::StrFormat("%s  %.0f %%  %s%s%s", PhaseOf(execution), 100 * DoneShare(execution),
                         BytesOf(execution), behind.empty() ? "" : "  behind: ", behind);
}

}  // namespace remesh::client
