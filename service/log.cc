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

struct Suppressed {
  int64_t like_it = 0;
  int64_t in_all = 0;

  std::string ToString() const {
    return absl::StrCat(like_it > 0 ? absl::StrCat(" suppressed=", like_it) : "",
                        in_all > 0 ? absl::StrCat(" suppressed_in_all=", in_all) : "");
  }
};

// How many lines were dropped before this one; nullopt: this one is, too. Whoever asks for debug
// lines gets them all.
std::optional<Suppressed> Take(LogLevel level, std::string_view message) {
  if (level == LogLevel::kDebug) return Suppressed();
  static absl::Mutex mutex(absl::kConstInit);
  // Whoever makes us inform much does not keep a warning out. Never destroyed: threads may outlive
  // main.
  static LogBudget* budgets = new LogBudget[2];
  absl::MutexLock lock(&mutex);
  LogBudget& budget = budgets[level >= LogLevel::kWarning ? 1 : 0];
  const std::optional<int64_t> like_it = budget.Take(message, SteadyClock().Now());
  if (!like_it.has_value()) return std::nullopt;
  return Suppressed{.like_it = *like_it, .in_all = budget.TakeDroppedInAll()};
}

}  // namespace

LogValue::LogValue(const absl::Status& status)
    : text_(status.ToString(absl::StatusToStringMode::kWithNoExtraData)) {
  const std::string reason = GetErrorInfo(status).reason;
  if (reason != absl::StatusCodeToString(status.code())) reason_ = reason;
}

std::string FormatLog(LogLevel level, std::string_view message, LogFields fields) {
  std::string line = absl::StrCat("level=", std::string(kNames[static_cast<int>(level)]),
                                  " msg=", Quoted(message));
  for (const auto& [key, value] : fields) {
    absl::StrAppend(&line, " ", std::string(key), "=", Quoted(value.text()));
    if (!value.reason().empty()) absl::StrAppend(&line, " reason=", Quoted(value.reason()));
  }
  return line;
}

void Log(LogLevel level, std::string_view message, LogFields fields) {
  if (!LogEnabled(level)) return;
  const std::optional<Suppressed> suppressed = Take(level, message);
  if (!suppressed.has_value()) return;
  const std::string time =
      absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  const std::string line = absl::StrCat("time=", time, " ", FormatLog(level, message, fields),
                                        suppressed->ToString(), "\n");
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
