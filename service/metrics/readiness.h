// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace remesh::service {

// A condition without which a process should get no work, such as "journal".
struct ReadinessCheck {
  std::string name;
  // Returns OK, or the cause in words for an operator. Must be quick; any thread may call it.
  std::function<absl::Status()> check;
};

struct Readiness {
  bool ready = true;
  std::string text;  // a line "name: ok" or "name: why not" for each check
};

Readiness CheckReadiness(const std::vector<ReadinessCheck>& checks);

}  // namespace remesh::service
