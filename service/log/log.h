// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace remesh::service {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kLogfmt, kJson };

// A value of a log line: text, a number, or a status, whose reason (base/error.h) becomes a field
// of its own.
class LogValue {
 public:
  LogValue(const char* text) : text_(text) {}
  LogValue(std::string text) : text_(std::move(text)) {}
  LogValue(std::string_view text) : text_(text) {}
  LogValue(const absl::Status& status);
  LogValue(const absl::AlphaNum& number) : text_(absl::StrCat(number)) {}
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  LogValue(Number number) : text_(absl::StrCat(number)) {}

  const std::string& text() const { return text_; }
  const std::string& reason() const { return reason_; }  // "" unless it is a status with a reason

 private:
  std::string text_;
  std::string reason_;
};

using LogFields = std::initializer_list<std::pair<std::string_view, LogValue>>;

// Writes one line to stderr (in a single write if it has at most 4 KiB), such as
//   time=2026-11-21T05:49:10.123Z level=info msg="worker attached" host=a incarnation=3
// or, as LogFormat::kJson, an object of the same keys whose values are strings.
// Thread-safe. Lines below the level set are dropped; so are those of a message that comes too
// often (see LogBudget), until one ends in suppressed=N; where all messages together came too
// often, the next line ends in suppressed_in_all=N. After StartLogThread() no caller waits for the
// reader of stderr: lines wait for it, at most as many as LogOutput says; later ones are lost, and
// the next line that finds room ends in lost=N. Messages are constants; what varies is a field.
void Log(LogLevel level, std::string_view message, LogFields fields = {});

inline void LogInfo(std::string_view message, LogFields fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(std::string_view message, LogFields fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(std::string_view message, LogFields fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// Whether lines of this level are written.
bool LogEnabled(LogLevel level);

// Default to kInfo and kLogfmt.
void SetLogLevel(LogLevel level);
void SetLogFormat(LogFormat format);

// "debug", "info", "warning", "error"; "logfmt", "json". INVALID_ARGUMENT (field "log_level" or
// "log_format") for anything else.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view name);
absl::StatusOr<LogFormat> ParseLogFormat(std::string_view name);
// Sets both, or neither if one is invalid.
absl::Status SetLog(std::string_view level, std::string_view format);

// Writes the last message of a process to stderr, as one line: "program: message (REASON)", or, in
// LogFormat::kJson, a log line like others.
void LogLast(std::string_view program, const absl::Status& why);

// From now on a thread of its own writes the lines; until then each caller writes its own, and
// waits for the reader. What still waits when the process ends by exit(), a return from main(),
// abort() (REMESH_CHECK and checks of libraries among them) or a fault of its own is written first,
// for a second at most; not so when a signal from outside ends it. Call it once, after
// ShutdownSignal.
void StartLogThread();

// Waits for the lines logged so far to be written, for a second at most. Call it before _Exit().
void FlushLog();

// Returns the line without time and newline, for tests.
std::string FormatLog(LogLevel level, std::string_view message, LogFields fields,
                      LogFormat format = LogFormat::kLogfmt);

}  // namespace remesh::service
