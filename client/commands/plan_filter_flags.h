// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "remesh/v1/cache.pb.h"

namespace remesh::client {

// A plan filter as given on the command line.
struct PlanFilterFlags {
  std::string state, tier, fingerprint;
  std::string source_devices, target_devices, source_hosts, target_hosts, hits;  // "8", "8..16"
  std::string older, newer, unused;                                              // "90s", "1h"
  bool pinned = false;
  bool unpinned = false;
};

// --state, --source-devices 8..16, --older 1h, --pinned, --tier disk ...
void AddPlanFilterFlags(CLI::App& app, PlanFilterFlags& flags);

// INVALID_ARGUMENT names the flag.
absl::StatusOr<v1::PlanFilter> ToFilter(const PlanFilterFlags& flags, absl::Time now);

// The server's refusal of a filter, with --state for the field that it names. Every other value is
// checked before it is sent.
absl::Status AtFilterFlag(const absl::Status& status);

}  // namespace remesh::client
