// SPDX-License-Identifier: Apache-2.0
#include "server/settings_reload.h"

#include <utility>

#include "base/status_macros.h"
#include "server/join_tokens.h"
#include "service/log.h"

namespace remesh::server {

using service::ConfigReload;
using service::Settings;

namespace {

absl::StatusOr<service::SettingsCandidate> ParseServerSettings(const std::string& text,
                                                               const Settings& flags, Core& core) {
  ServerOptions options;
  Settings settings;
  AddSettings(options, settings);
  RETURN_IF_ERROR(settings.Load(text));
  RETURN_IF_ERROR(settings.ApplyFlagsOf(flags));
  RETURN_IF_ERROR(Validate(options));
  LiveOptions live = LiveOptionsOf(options);
  ASSIGN_OR_RETURN(live.join_token_hashes, JoinTokensOf(options));
  const auto apply = [options, live = std::move(live), &core]() -> absl::Status {
    RETURN_IF_ERROR(core.SetLive(live, PlanLimitsOf(options)));
    return service::SetLog(options.log_level, options.log_format);
  };
  return service::SettingsCandidate{.values = settings.Values(), .apply = apply};
}

}  // namespace

std::unique_ptr<ConfigReload> ReloadServerSettings(const service::ReadResult& started,
                                                   const Settings& settings,
                                                   const ServerOptions& options, Core& core,
                                                   service::ConfigMetrics& metrics) {
  if (started.config_path.empty()) return nullptr;
  ConfigReload::Options reload{
      .path = started.config_path,
      .text = started.config_text,
      .values = settings.Values(),
      .parse = [&settings, &core](
                   const std::string& text) { return ParseServerSettings(text, settings, core); },
      .beside = {}};
  if (!options.join_token_file.empty()) reload.beside.push_back(options.join_token_file);
  return std::make_unique<ConfigReload>(std::move(reload), metrics);
}

absl::StatusOr<std::set<std::string>> JoinTokensOf(const ServerOptions& options) {
  if (options.join_token_file.empty()) return std::set<std::string>();
  return ReadJoinTokens(options.join_token_file);
}

}  // namespace remesh::server
