// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/commands/command.h"

namespace remesh::client {

// Each function adds one of remeshctl's commands, with its flags and verbs, to the parser.
void AddCache(CLI::App& app, Command& command);
void AddConfig(CLI::App& app, Command& command);
// Completes the commands that `app` has at the time of this call.
void AddCompletion(CLI::App& app, Command& command);
void AddDebug(CLI::App& app, Command& command);
void AddDemo(CLI::App& app, Command& command);
void AddExecutions(CLI::App& app, Command& command);
void AddGet(CLI::App& app, Command& command);
void AddHelp(CLI::App& app, Command& command);
void AddVersion(CLI::App& app, Command& command);
void AddJobs(CLI::App& app, Command& command);
// Below `jobs`, after AddJobs().
void AddDescribeJob(CLI::App& app, Command& command);
void AddResizeJob(CLI::App& app, Command& command);
void AddJournal(CLI::App& app, Command& command);
void AddLayout(CLI::App& app, Command& command);
void AddPlan(CLI::App& app, Command& command);
void AddPlans(CLI::App& app, Command& command);
// Below `plans`.
void AddPrecompute(CLI::App& plans, Command& command);
void AddPut(CLI::App& app, Command& command);
void AddReshard(CLI::App& app, Command& command);
// `seal` and `unseal`.
void AddSeal(CLI::App& app, Command& command);
void AddSharding(CLI::App& app, Command& command);
void AddStates(CLI::App& app, Command& command);
void AddSuggest(CLI::App& app, Command& command);
void AddTopology(CLI::App& app, Command& command);
void AddWorkers(CLI::App& app, Command& command);
void AddWorlds(CLI::App& app, Command& command);

}  // namespace remesh::client
