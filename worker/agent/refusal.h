// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"

namespace remesh::worker {

// A planner's answer to Register that dialling again soon does not change.
struct Refusal {
  bool superseded = false;  // another process is this host now: this one must end
  std::string remedy;       // for the operator of the host
};

// nullopt if the stream ended for any other reason.
std::optional<Refusal> RefusalOf(const absl::Status& status, const std::string& host);

// Which refusals a worker logs, as it goes on dialling: each that differs from the last one, and
// one that stays the same once a minute. Not thread-safe.
class RefusalNotes {
 public:
  bool IsDue(const absl::Status& refusal, Timestamp now);
  // The stream ended for another reason: the next refusal is a new one.
  void Forget() { last_ = absl::OkStatus(); }

 private:
  absl::Status last_;
  Timestamp noted_{0};
};

}  // namespace remesh::worker
