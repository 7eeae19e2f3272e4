// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace remesh::service {

// One thing without which a process should get no work, such as "journal".
struct ReadinessCheck {
  std::string name;
  // OK, or why not, in words for an operator. Quick; called by any thread.
  std::function<absl::Status()> check;
};

struct Readiness {
  bool ready = true;
  std::string text;  // a line "name: ok" or "name: why not" for each check
};

Readiness CheckReadiness(const std::vector<ReadinessCheck>& checks);

}  // namespace remesh::service
