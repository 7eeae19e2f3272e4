// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/commands/flag_values.h"
#include "client/connection.h"
#include "client/output.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace remesh::client {

// The action that the command line asked for; runs after parsing. A status that is not OK ends
// remeshctl with exit code 1, or 3 if its reason is kOutcomeUnknown.
using Command = std::function<absl::Status()>;

// --server ADDRESS ($REMESH_SERVER), --timeout SECONDS, also as --call-timeout.
void AddServerFlags(CLI::App& app, Endpoint& server);
CLI::Option* AddServerFlag(CLI::App& app, Endpoint& server, const char* help);
void AddTimeoutFlag(CLI::App& app, Endpoint& endpoint);
// For a command that waits for the end of a move: --server, --timeout SECONDS of the wait, 0 if it
// is not given, and --call-timeout SECONDS of a call.
void AddWaitTimeoutFlags(CLI::App& app, Endpoint& server, double& wait_seconds);
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

// Kinds of names that the server knows: how one is written, and the command that lists them, from
// which shells complete them.
struct NameKind {
  const char* form;
  const char* list;
};
inline constexpr NameKind kStateNames = {"jobs/{job}/states/{state}", "states list"};
inline constexpr NameKind kExecutionNames = {"jobs/{job}/executions/{id}", "executions list"};
inline constexpr NameKind kPlanNames = {"plans/{...}", "plans list"};
inline constexpr NameKind kWorkerNames = {"workers/{host}, or the host alone", "workers list"};
inline constexpr NameKind kWorldNames = {"jobs/{job}/worlds/{world}", "worlds list"};
inline constexpr NameKind kJobNames = {"jobs/{job}, or the job alone", "jobs list"};

// A required argument that is such a name.
CLI::Option* AddName(CLI::App& app, const NameKind& kind, std::string& name,
                     const char* argument = "NAME");
// The command that lists the names that an option takes whose help begins with their form; "": it
// takes no such names.
std::string ListCommandOf(const std::string& help);

// --parent jobs/JOB ($REMESH_PARENT).
void AddParentFlag(CLI::App& app, std::string& parent);
// --phase, one of the values of `phases` but the first, which is the unset one.
void AddPhaseFlag(CLI::App& app, const google::protobuf::EnumDescriptor* phases,
                  std::string& phase);
// -w: as the command `watch`.
void AddWatchFlag(CLI::App& app, bool& watch);

// Keeps the items in the phase of this name; "": all.
template <typename Item>
void KeepPhase(const std::string& phase, google::protobuf::RepeatedPtrField<Item>& items) {
  if (phase.empty()) return;
  const auto is_other = [&](const Item& item) { return Item::Phase_Name(item.phase()) != phase; };
  items.erase(std::remove_if(items.begin(), items.end(), is_other), items.end());
}

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

// The same for a verb that waits for the end of a move: its options have `wait_seconds`, too.
template <typename Options>
std::pair<CLI::App*, std::shared_ptr<Options>> AddWaitVerb(CLI::App& noun, Command& command,
                                                           const char* verb, const char* help,
                                                           absl::Status (*run)(const Options&)) {
  CLI::App* sub = noun.add_subcommand(verb, help);
  auto options = std::make_shared<Options>();
  AddWaitTimeoutFlags(*sub, options->server, options->wait_seconds);
  AddOutputFlag(*sub, options->format);
  sub->callback([&command, options, run] { command = [options, run] { return run(*options); }; });
  return {sub, options};
}

}  // namespace remesh::client
