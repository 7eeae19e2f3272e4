// SPDX-License-Identifier: Apache-2.0
#include "worker/settings_reload.h"

#include <utility>

#include "base/status_macros.h"
#include "service/log/log.h"
#include "worker/options.h"

namespace remesh::worker {

using service::ConfigReload;
using service::Settings;

namespace {

absl::StatusOr<service::SettingsCandidate> ParseWorkerSettings(const std::string& text,
                                                               const Settings& flags,
                                                               const std::vector<GpuKind>& gpus,
                                                               Worker& worker) {
  WorkerOptions options;
  options.gpus = gpus;
  Settings settings;
  AddSettings(options, settings);
  RETURN_IF_ERROR(settings.Load(text));
  RETURN_IF_ERROR(settings.ApplyFlagsOf(flags));
  RETURN_IF_ERROR(ValidateHere(options));
  ASSIGN_OR_RETURN(SocketRules rules, SocketRulesOf(options));
  const auto apply = [options, rules = std::move(rules), &worker]() -> absl::Status {
    RETURN_IF_ERROR(service::SetLog(options.log_level, options.log_format));
    worker.SetSocketRules(rules);
    return absl::OkStatus();
  };
  return service::SettingsCandidate{.values = settings.Values(), .apply = apply};
}

}  // namespace

std::unique_ptr<ConfigReload> ReloadWorkerSettings(const service::ReadResult& started,
                                                   const Settings& settings,
                                                   const std::vector<GpuKind>& gpus,
                                                   Worker& worker) {
  if (started.config_path.empty()) return nullptr;
  return std::make_unique<ConfigReload>(
      ConfigReload::Options{.path = started.config_path,
                            .text = started.config_text,
                            .values = settings.Values(),
                            .parse =
                                [&settings, gpus, &worker](const std::string& text) {
                                  return ParseWorkerSettings(text, settings, gpus, worker);
                                },
                            .beside = {}},
      worker.config_metrics());
}

}  // namespace remesh::worker
