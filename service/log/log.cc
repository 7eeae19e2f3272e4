// SPDX-License-Identifier: Apache-2.0
#include "service/log/log.h"

#include <signal.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/text/visible.h"
#include "service/log/log_budget.h"
#include "service/log/log_output.h"
#include "service/log/recent_log.h"

namespace remesh::service {
namespace {

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

std::atomic<LogLevel> lowest{LogLevel::kInfo};
std::atomic<LogFormat> format_now{LogFormat::kLogfmt};

// Quotes text that could mislead a reader of key=value pairs.
std::string Quoted(std::string_view text) {
  const bool plain = !text.empty() && text.find_first_of(" \"=\\\t\r\n") == std::string_view::npos;
  const absl::string_view view(text.data(), text.size());
  const std::string shown = Visible(absl::Utf8SafeCEscape(view));
  return plain ? shown : absl::StrCat("\"", shown, "\"");
}

struct Suppressed {
  int64_t like_it = 0;
  int64_t in_all = 0;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs PairsOf(LogLevel level, std::string_view message, LogFields fields) {
  Pairs pairs = {{"level", std::string(kNames[static_cast<int>(level)])},
                 {"msg", std::string(message)}};
  for (const auto& [key, value] : fields) {
    pairs.emplace_back(key, value.text());
    if (!value.reason().empty()) pairs.emplace_back("reason", value.reason());
  }
  return pairs;
}

std::string AsLogfmt(const Pairs& pairs) {
  std::string line;
  for (const auto& [key, value] : pairs) {
    absl::StrAppend(&line, line.empty() ? "" : " ", key, "=", Quoted(value));
  }
  return line;
}

// Keeps the order of keys. Of equal keys the last counts, because JSON cannot have both. Only
// ASCII, because a terminal obeys some other characters, and others turn what follows them.
std::string AsJson(const Pairs& pairs) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : pairs) object[key] = value;
  return object.dump(-1, ' ', /*ensure_ascii=*/true,
                     nlohmann::ordered_json::error_handler_t::replace);
}

std::string Format(const Pairs& pairs, LogFormat format) {
  return format == LogFormat::kJson ? AsJson(pairs) : AsLogfmt(pairs);
}

// How many lines were dropped before this one; nullopt: drop this one too. Debug lines are never
// dropped.
std::optional<Suppressed> Take(LogLevel level, std::string_view message) {
  if (level == LogLevel::kDebug) return Suppressed();
  static absl::Mutex mutex(absl::kConstInit);
  // Warnings have a budget of their own, so that many informational lines cannot keep them out.
  // Never destroyed, because threads may outlive main.
  static LogBudget* budgets = new LogBudget[2];
  absl::MutexLock lock(&mutex);
  LogBudget& budget = budgets[level >= LogLevel::kWarning ? 1 : 0];
  const std::optional<int64_t> like_it = budget.Take(message, SteadyClock().Now());
  if (!like_it.has_value()) return std::nullopt;
  return Suppressed{.like_it = *like_it, .in_all = budget.TakeDroppedInAll()};
}

// Empty where it says no more than the code.
std::string ReasonOf(const absl::Status& status) {
  std::string reason = GetErrorInfo(status).reason;
  return reason == absl::StatusCodeToString(status.code()) ? "" : reason;
}

// The signal then has its usual effect.
void OnFatalSignal(int signal) {
  FlushLog();
  std::raise(signal);
}

// Leaves a handler alone that a library has set.
void FlushLogAt(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return;
  action.sa_handler = OnFatalSignal;
  action.sa_flags = SA_RESETHAND;
  sigaction(signal, &action, nullptr);
}

}  // namespace

LogValue::LogValue(const absl::Status& status)
    : text_(status.ToString(absl::StatusToStringMode::kWithNoExtraData)),
      reason_(ReasonOf(status)) {}

std::string FormatLog(LogLevel level, std::string_view message, LogFields fields,
                      LogFormat format) {
  return Format(PairsOf(level, message, fields), format);
}

void Log(LogLevel level, std::string_view message, LogFields fields) {
  if (!LogEnabled(level)) return;
  const std::optional<Suppressed> suppressed = Take(level, message);
  if (!suppressed.has_value()) return;
  Pairs pairs = PairsOf(level, message, fields);
  pairs.emplace(pairs.begin(), "time",
                absl::FormatTime("%E4Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()));
  if (suppressed->like_it > 0) pairs.emplace_back("suppressed", absl::StrCat(suppressed->like_it));
  if (suppressed->in_all > 0) {
    pairs.emplace_back("suppressed_in_all", absl::StrCat(suppressed->in_all));
  }
  LogOutput& out = LogOutput::Stderr();
  const int64_t lost = out.TakeLost();
  if (lost > 0) pairs.emplace_back("lost", absl::StrCat(lost));
  std::string line = Format(pairs, format_now.load(std::memory_order_relaxed)) + "\n";
  RememberLogLine(std::string_view(line).substr(0, line.size() - 1));
  out.Write(std::move(line), lost);
}

bool LogEnabled(LogLevel level) { return level >= lowest.load(std::memory_order_relaxed); }

void SetLogLevel(LogLevel level) { lowest.store(level, std::memory_order_relaxed); }

void SetLogFormat(LogFormat format) { format_now.store(format, std::memory_order_relaxed); }

void LogLast(std::string_view program, const absl::Status& why) {
  if (format_now.load(std::memory_order_relaxed) == LogFormat::kJson) {
    return LogError("the process ends", {{"program", program}, {"error", why}});
  }
  // One line, because operators look at the last one; messages of libraries may have several.
  std::string line = Visible(absl::StrReplaceAll(why.message(), {{"\n", "; "}}));
  if (const std::string reason = ReasonOf(why); !reason.empty()) {
    absl::StrAppend(&line, " (", reason, ")");
  }
  LogOutput::Stderr().Write(
      absl::StrCat(absl::string_view(program.data(), program.size()), ": ", line, "\n"), 0);
}

void StartLogThread() {
  LogOutput::Stderr().StartThread();
  std::atexit(FlushLog);
  for (const int signal : {SIGABRT, SIGSEGV, SIGILL, SIGFPE}) FlushLogAt(signal);
}

void FlushLog() { LogOutput::Stderr().Flush(); }

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return InvalidField("log_level", name, "must be debug, info, warning or error");
}

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view name) {
  if (name == "logfmt") return LogFormat::kLogfmt;
  if (name == "json") return LogFormat::kJson;
  return InvalidField("log_format", name, "must be logfmt or json");
}

absl::Status SetLog(std::string_view level, std::string_view format) {
  ASSIGN_OR_RETURN(const LogLevel lowest_now, ParseLogLevel(level));
  ASSIGN_OR_RETURN(const LogFormat format_then, ParseLogFormat(format));
  SetLogLevel(lowest_now);
  SetLogFormat(format_then);
  return absl::OkStatus();
}

}  // namespace remesh::service
