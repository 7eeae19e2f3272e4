// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/connection.h"
#include "client/output.h"

namespace remesh {

// What the command line asked for; runs once parsing is done. A status that is not OK ends
// remeshctl with exit code 1.
using Command = std::function<absl::Status()>;

// --server ADDRESS ($REMESH_SERVER), --timeout SECONDS.
void AddServerFlags(CLI::App& app, Endpoint& server);

// --socket PATH ($REMESH_SOCKET), --timeout SECONDS.
void AddSocketFlags(CLI::App& app, Endpoint& worker);

// -o table|json.
void AddOutputFlag(CLI::App& app, OutputFormat& format);

}  // namespace remesh
