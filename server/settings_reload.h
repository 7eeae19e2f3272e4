// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "server/core.h"
#include "server/options.h"
#include "server/server.h"
#include "server/server_info.h"
#include "service/audit_log.h"
#include "service/config_reload.h"
#include "service/read_settings.h"

namespace remesh::server {

// What live settings are put in force in.
struct LiveParts {
  Core& core;
  Server& server;
  service::AuditLog& audit;
  ServerDescription& description;
};

// Keeps what Settings::Live names, and join tokens, as the settings file has them now. Null when the
// process was started without a file. What it is given must outlive it.
std::unique_ptr<service::ConfigReload> ReloadServerSettings(const service::ReadResult& started,
                                                            const service::Settings& settings,
                                                            const ServerOptions& options,
                                                            LiveParts parts,
                                                            service::ConfigMetrics& metrics);

// Of the file that the options name; none without one.
absl::StatusOr<std::set<std::string>> JoinTokensOf(const ServerOptions& options);

}  // namespace remesh::server
