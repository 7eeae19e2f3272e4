// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/formed_world.h"
#include "server/coordination/outcome.h"

namespace remesh::server::coordination {

// What the machines of this folder ask for. Actions are carried out in order.

using SessionId = uint64_t;  // one Join stream
using CallId = uint64_t;     // one Exchange or AgreeStep call that waits for its answer

// Answers an Exchange with the outcome of its round, or refuses it.
struct Answer {
  CallId call = 0;
  std::variant<SharedOutcome, absl::Status> with;
  std::string digest = "";  // of the outcome as a whole, if OK: a member may get less of it
};
// The step at which all members leave, and why.
struct AgreedStep {
  int64_t step = 0;
  v1::WorldEvent::Preempt preempt;
};
// Answers an AgreeStep.
struct AnswerStep {
  CallId call = 0;
  absl::StatusOr<AgreedStep> agreed;
};
// UNAVAILABLE (CALLED_AGAIN, JOINED_AGAIN): another call, or stream, of the same member has taken the
// place of this one. One that comes late may take the place of a newer one, so the member is to try
// again.
absl::Status CalledAgain();
absl::Status JoinedAgain();

// Ends a session with a status. By default: because another of the same member began.
struct EndSession {
  SessionId session = 0;
  absl::Status status = JoinedAgain();
};

// A round has its outcome: for figures. `since`: when its first member came; InfinitePast if that
// was before a restart of the server.
struct RoundEnded {
  Ending ending = Ending::kOk;
  absl::Time since;
};

struct SendFormed {
  SessionId session = 0;
  std::shared_ptr<const FormedWorld> world;
  int rank = 0;
};
// Sends any other event.
struct Send {
  SessionId session = 0;
  v1::WorldEvent event;
};

// Writes the epoch of a scope's next world to the journal; Registry::OnSaved() follows.
struct SaveEpoch {
  std::string scope;
  int64_t epoch = 0;
  int size = 0;
};
// Forgets the scope, in the journal too. Nothing follows.
struct ForgetScope {
  std::string scope;
  int64_t last_epoch = 0;  // of any scope
};
// From now on this is the present epoch of the scope.
struct RaiseEpoch {
  std::string scope;
  int64_t epoch = 0;
};

using Action = std::variant<Answer, AnswerStep, EndSession, SendFormed, Send, SaveEpoch,
                            ForgetScope, RaiseEpoch, RoundEnded>;
using Actions = std::vector<Action>;

}  // namespace remesh::server::coordination
