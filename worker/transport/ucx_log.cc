// SPDX-License-Identifier: Apache-2.0
#include "worker/transport/ucx_log.h"

#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/log/log.h"

namespace remesh::worker {

using service::LogLevel;

namespace {

LogLevel LevelOf(ucs_log_level_t level) {
  if (level == UCS_LOG_LEVEL_FATAL) return LogLevel::kError;
  if (level <= UCS_LOG_LEVEL_WARN) return LogLevel::kWarning;
  return level <= UCS_LOG_LEVEL_INFO ? LogLevel::kInfo : LogLevel::kDebug;
}

ucs_log_func_rc_t OnUcxLog(const char* file, unsigned line, const char*, ucs_log_level_t level,
                           const ucs_log_component_config_t*, const char* format, va_list values) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, values);
  const char* slash = std::strrchr(file, '/');
  const std::string at = absl::StrCat(slash == nullptr ? file : slash + 1, ":", line);
  service::Log(LevelOf(level), "UCX", {{"cause", text}, {"at", at}});
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void LogUcxAsOurs() { ucs_log_push_handler(OnUcxLog); }

}  // namespace remesh::worker
