// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "server/core.h"
#include "server/options.h"
#include "server/server.h"
#include "server/server_info.h"
#include "service/rpc/audit_log.h"
#include "service/settings/config_reload.h"
#include "service/settings/read_settings.h"

namespace remesh::server {

// The parts of the server that live settings affect.
struct LiveParts {
  Core& core;
  Server& server;
  service::AuditLog& audit;
  ServerDescription& description;
};

// Keeps the live settings (see Settings::Live) and the join tokens as their files now have them.
// Null when the process was started without a settings file. All arguments must outlive the result.
std::unique_ptr<service::ConfigReload> ReloadServerSettings(const service::ReadResult& started,
                                                            const service::Settings& settings,
                                                            const ServerOptions& options,
                                                            LiveParts parts,
                                                            service::ConfigMetrics& metrics);

// The token hashes from the file that the options name; empty when they name none.
absl::StatusOr<std::set<std::string>> JoinTokensOf(const ServerOptions& options);

}  // namespace remesh::server
