// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "server/core.h"
#include "server/options.h"
#include "service/config_reload.h"
#include "service/read_settings.h"

namespace remesh::server {

// Keeps what Settings::Live names, and join tokens, as the settings file has them now. Null when the
// process was started without a file. What it is given must outlive it.
std::unique_ptr<service::ConfigReload> ReloadServerSettings(const service::ReadResult& started,
                                                            const service::Settings& settings,
                                                            const ServerOptions& options,
                                                            Core& core,
                                                            service::ConfigMetrics& metrics);

// Of the file that the options name; none without one.
absl::StatusOr<std::set<std::string>> JoinTokensOf(const ServerOptions& options);

}  // namespace remesh::server
