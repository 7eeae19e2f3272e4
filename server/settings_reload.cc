// SPDX-License-Identifier: Apache-2.0
#include "server/settings_reload.h"

#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "server/callers/join_tokens.h"
#include "service/log/log.h"

namespace remesh::server {

using service::ConfigReload;
using service::Settings;

namespace {

// Checks the one live setting that depends on settings that wait for a restart.
absl::Status CheckTls(const ServerOptions& candidate, const ServerOptions& started) {
  if (candidate.tls.empty() == started.tls.empty()) return absl::OkStatus();
  if (candidate.tls.empty()) {
    return InvalidField("tls_certificate_file", "",
                        "must stay until the server stops: it was started with TLS");
  }
  if (candidate.data_encryption == "none") return absl::OkStatus();
  return InvalidField("data_encryption", candidate.data_encryption,
                      "needs TLS in force: the server was started without, restart it");
}

absl::StatusOr<service::SettingsCandidate> ParseServerSettings(const std::string& text,
                                                               const Settings& flags,
                                                               const ServerOptions& started,
                                                               LiveParts parts) {
  ServerOptions options;
  Settings settings;
  AddSettings(options, settings);
  RETURN_IF_ERROR(settings.Load(text));
  RETURN_IF_ERROR(settings.ApplyFlagsOf(flags));
  RETURN_IF_ERROR(Validate(options));
  RETURN_IF_ERROR(CheckTls(options, started));
  LiveOptions live = LiveOptionsOf(options);
  ASSIGN_OR_RETURN(live.join_token_hashes, JoinTokensOf(started));  // its path waits for a restart
  const auto apply = [options, live = std::move(live), values = settings.Values(),
                      parts]() -> absl::Status {
    ASSIGN_OR_RETURN(service::AuditLog::Change audit,
                     parts.audit.Prepare(options.audit_log_file, options.audit_reads));
    RETURN_IF_ERROR(parts.core.SetLive(live, PlanLimitsOf(options)));
    parts.audit.Apply(std::move(audit));
    const CallLimits::Options calls = CallLimitsOf(options);
    parts.server.SetCallRate(calls.per_second, calls.burst);
    parts.description.SetLive(values);
    return service::SetLog(options.log_level, options.log_format);
  };
  return service::SettingsCandidate{.values = settings.Values(), .apply = apply};
}

}  // namespace

std::unique_ptr<ConfigReload> ReloadServerSettings(const service::ReadResult& started,
                                                   const Settings& settings,
                                                   const ServerOptions& options, LiveParts parts,
                                                   service::ConfigMetrics& metrics) {
  if (started.config_path.empty()) return nullptr;
  ConfigReload::Options reload{.path = started.config_path,
                               .text = started.config_text,
                               .values = settings.Values(),
                               .parse =
                                   [&settings, options, parts](const std::string& text) {
                                     return ParseServerSettings(text, settings, options, parts);
                                   },
                               .beside = {}};
  if (!options.join_token_file.empty()) reload.beside.push_back(options.join_token_file);
  return std::make_unique<ConfigReload>(std::move(reload), metrics);
}

absl::StatusOr<std::set<std::string>> JoinTokensOf(const ServerOptions& options) {
  if (options.join_token_file.empty()) return std::set<std::string>();
  return ReadJoinTokens(options.join_token_file);
}

}  // namespace remesh::server
