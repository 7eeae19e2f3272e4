// SPDX-License-Identifier: Apache-2.0
#include "service/log/library_log.h"

#include <grpc/support/log.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/log/log.h"

namespace remesh::service {
namespace {

LogLevel LevelOf(gpr_log_severity severity) {
  if (severity == GPR_LOG_SEVERITY_ERROR) return LogLevel::kWarning;
  return severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo : LogLevel::kDebug;
}

void OnGrpcLog(gpr_log_func_args* said) {
  const char* slash = std::strrchr(said->file, '/');
  const std::string at = absl::StrCat(slash == nullptr ? said->file : slash + 1, ":", said->line);
  Log(LevelOf(said->severity), "gRPC", {{"cause", said->message}, {"at", at}});
}

}  // namespace

void LogGrpcAsOurs() { gpr_set_log_function(OnGrpcLog); }

}  // namespace remesh::service
