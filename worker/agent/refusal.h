// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace remesh::worker {

// A planner's answer to Register that dialling again soon does not change.
struct Refusal {
  bool superseded = false;  // another process is this host now: this one must end
  std::string remedy;       // for the operator of the host
};

// nullopt if the stream ended for any other reason.
std::optional<Refusal> RefusalOf(const absl::Status& status, const std::string& host);

}  // namespace remesh::worker
