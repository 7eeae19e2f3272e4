// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/commands/flag_values.h"
#include "client/connection.h"
#include "client/output.h"

namespace remesh::client {

// The action that the command line asked for; runs after parsing. A status that is not OK ends
// remeshctl with exit code 1, or 3 if its reason is kOutcomeUnknown.
using Command = std::function<absl::Status()>;

// --server ADDRESS ($REMESH_SERVER), --timeout SECONDS.
void AddServerFlags(CLI::App& app, Endpoint& server);
CLI::Option* AddServerFlag(CLI::App& app, Endpoint& server, const char* help);
void AddTimeoutFlag(CLI::App& app, Endpoint& endpoint);
// Says what --timeout means to a command that watches until it is ended.
void SetHelpOfWatchTimeout(CLI::App& app);

// --socket PATH ($REMESH_SOCKET), --timeout SECONDS.
void AddSocketFlags(CLI::App& app, Endpoint& worker);

// -o table|wide|json|yaml|name.
void AddOutputFlag(CLI::App& app, OutputFormat& format);
// -o table|json.
void AddShortOutputFlag(CLI::App& app, OutputFormat& format);

// --full and --view basic
// full, two spellings of the same choice.
void AddFullFlags(CLI::App& app, bool& full);

// Adds `verb` below `noun`: a command that calls the server by run(options). Each verb has its own
// options, which have at least `server` and `format`.
template <typename Options>
std::pair<CLI::App*, std::shared_ptr<Options>> AddVerb(CLI::App& noun, Command& command,
                                                       const char* verb, const char* help,
                                                       absl::Status (*run)(const Options&)) {
  CLI::App* sub = noun.add_subcommand(verb, help);
  auto options = std::make_shared<Options>();
  AddServerFlags(*sub, options->server);
  AddOutputFlag(*sub, options->format);
  sub->callback([&command, options, run] { command = [options, run] { return run(*options); }; });
  return {sub, options};
}

}  // namespace remesh::client
