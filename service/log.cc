// SPDX-License-Identifier: Apache-2.0
#include "service/log.h"

#include <unistd.h>

#include <atomic>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "service/log_budget.h"

namespace remesh {
namespace {

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

std::atomic<LogLevel> lowest{LogLevel::kInfo};

// Quoted where a reader of key=value pairs could be misled.
std::string Quoted(std::string_view text) {
  const bool plain = !text.empty() && text.find_first_of(" \"=\\\t\r\n") == std::string_view::npos;
  const absl::string_view view(text.data(), text.size());
  return plain ? absl::Utf8SafeCEscape(view)
               : absl::StrCat("\"", absl::Utf8SafeCEscape(view), "\"");
}

// How many lines like this one were dropped before it; nullopt: this one is, too. Whoever asks for
// debug lines gets them all.
std::optional<int64_t> Take(LogLevel level, std::string_view message) {
  if (level == LogLevel::kDebug) return 0;
  static absl::Mutex mutex(absl::kConstInit);
  // Whoever makes us inform much does not keep a warning out. Never destroyed: threads may outlive
  // main.
  static LogBudget* budgets = new LogBudget[2];
  absl::MutexLock lock(&mutex);
  return budgets[level >= LogLevel::kWarning ? 1 : 0].Take(message, SteadyClock().Now());
}

}  // namespace

std::string FormatLog(LogLevel level, std::string_view message, LogFields fields) {
  std::string line = absl::StrCat("level=", std::string(kNames[static_cast<int>(level)]),
                                  " msg=", Quoted(message));
  for (const auto& [key, value] : fields) {
    absl::StrAppend(&line, " ", std::string(key), "=", Quoted(value.text()));
  }
  return line;
}

void Log(LogLevel level, std::string_view message, LogFields fields) {
  if (!LogEnabled(level)) return;
  const std::optional<int64_t> suppressed = Take(level, message);
  if (!suppressed.has_value()) return;
  const std::string time =
      absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const std::string line =
      absl::StrCat("time=", time, " ", FormatLog(level, message, fields),
                   *suppressed > 0 ? absl::StrCat(" suppressed=", *suppressed) : "", "\n");
  // There is nobody to tell of a stderr that cannot be written.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

bool LogEnabled(LogLevel level) { return level >= lowest.load(std::memory_order_relaxed); }

void SetLogLevel(LogLevel level) { lowest.store(level, std::memory_order_relaxed); }

absl::Status SetLogLevel(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name != kNames[i]) continue;
    SetLogLevel(static_cast<LogLevel>(i));
    return absl::OkStatus();
  }
  return InvalidField("log_level", name, "must be debug, info, warning or error");
}

}  // namespace remesh
