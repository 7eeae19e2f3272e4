// SPDX-License-Identifier: Apache-2.0
#include "service/log/recent_log.h"

#include <algorithm>
#include <deque>

#include "absl/synchronization/mutex.h"
#include "base/text/utf8.h"

namespace remesh::service {
namespace {

constexpr size_t kRecentLinesMax = 1000;
constexpr size_t kRecentBytesMax = size_t{512} << 10;
constexpr size_t kRecentLineBytesMax = 4096;

struct RecentLines {
  absl::Mutex mutex;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;
};

// Never destroyed, because threads may outlive main.
RecentLines& Recent() {
  static auto* const recent = new RecentLines();
  return *recent;
}

}  // namespace

std::vector<std::string> RecentLogLines() {
  RecentLines& recent = Recent();
  absl::MutexLock lock(&recent.mutex);
  return {recent.lines.begin(), recent.lines.end()};
}

void RememberLogLine(std::string_view line) {
  size_t bytes = std::min(line.size(), kRecentLineBytesMax);
  while (bytes > 0 && !BeginsCharacter(line, bytes)) --bytes;
  RecentLines& recent = Recent();
  absl::MutexLock lock(&recent.mutex);
  recent.lines.emplace_back(line.substr(0, bytes));
  recent.bytes += recent.lines.back().size();
  while (recent.lines.size() > kRecentLinesMax || recent.bytes > kRecentBytesMax) {
    recent.bytes -= recent.lines.front().size();
    recent.lines.pop_front();
  }
}

}  // namespace remesh::service
