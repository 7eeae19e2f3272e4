// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "remesh/v1/worker.pb.h"
#include "worker/execution/mover.h"

namespace remesh::worker {

// One attempt of an execution as this host lives it. A pure state machine: events come in, what
// must be done goes out, in order, and its result comes back as an event.
//
//   kReserving -> kFetching -> kOpening -> kTransferring -> kVerifying -> kVerified
//        \____________\____________\____________\_____________\____________/   |
//                 error |                       | Abort                       | Commit
//                       v                       v                             v
//                    kFailed ---- Abort --> kStopping --> kOver         kCommitting
//                                                           ^                 |
//                                                           |                 v
//                                                           +----------- kCommitted
//
// kFailed is told to the planner, which aborts.
// One for each event and command: it has more than 25 methods.
class Attempt {
 public:
  enum class Phase {
    kReserving,
    kFetching,
    kOpening,
    kTransferring,
    kVerifying,
    kVerified,
    kCommitting,
    kCommitted,
    kFailed,
    kStopping,
    kOver
  };

  struct Reserve {};  // check the source generation and reserve the target's shards; -> Reserved()
  struct FetchProgram {};  // -> ProgramFetched()
  struct Open {};          // bind the program, connect; -> Opened()
  struct GrantWindows {
    int32_t until = 0;
  };
  struct CheckSources {};  // -> SourcesChecked()
  struct MarkVerified {};  // the target generation on file; -> MarkedVerified()
  struct MarkReady {};     // the target generation readable, on file; -> MarkedReady()
  struct LookAgain {       // at a chunk that arrived spoiled somewhere; -> LookedAgain()
    ChunkName chunk;
  };
  struct StopMoving {};  // close every endpoint; -> Stopped()
  struct DropTarget {    // free the target's shards and all else
    bool even_committed = false;
  };
  struct Say {
    v1::AttachRequest message;
  };
  using Action = std::variant<Reserve, FetchProgram, Open, GrantWindows, CheckSources, MarkVerified,
                              MarkReady, LookAgain, StopMoving, DropTarget, Say>;
  using Actions = std::vector<Action>;

  explicit Attempt(v1::Prepare prepare) : prepare_(std::move(prepare)) {}

  Actions Start();
  Actions Reserved(const absl::Status& status);
  Actions ProgramFetched(const absl::Status& status);
  Actions Opened(const absl::Status& status);
  Actions WindowDone(const WindowReport& report);
  Actions MovingFailed(const absl::Status& status);
  Actions SourcesChecked(const absl::Status& status);
  Actions MarkedVerified(const absl::Status& status);
  Actions MarkedReady(const absl::Status& status);
  Actions LookedAgain(const absl::Status& status);
  Actions Stopped();

  // Commands of the planner. One that does not fit the phase fails the attempt
  // (COMMAND_OUT_OF_ORDER), repeated ones do nothing new.
  Actions Grant(int32_t until);
  Actions Verify();
  Actions Commit();
  // What is committed stays so unless `even_committed`. `why`: what failed elsewhere; a chunk that it
  // names is looked at again before all ends.
  Actions Abort(bool even_committed = false, const absl::Status& why = absl::OkStatus());

  // What the planner may have missed while this host was not attached.
  Actions Reattached() const;

  const v1::Prepare& prepare() const { return prepare_; }
  Phase phase() const { return phase_; }
  // Whether the state's shards are in its hands.
  bool active() const { return phase_ != Phase::kCommitted && phase_ != Phase::kOver; }
  // Nothing more will happen: to be forgotten.
  bool over() const { return phase_ == Phase::kOver; }

 private:
  // `next` unless `status` is an error or the phase is not `expected` any more (an Abort came
  // first).
  Actions Step(Phase expected, const absl::Status& status, Phase next, Actions actions);
  Actions Fail(const absl::Status& status);
  Actions OutOfOrder(const char* command);
  Say Prepared() const;
  Say Verified() const;
  Say Committed() const;
  Say Failed() const;
  Say Progress() const;

  const v1::Prepare prepare_;
  Phase phase_ = Phase::kReserving;
  int32_t granted_ = 0;
  bool undone_ = false;  // the decision was taken back
  WindowReport last_{.window = -1};
  absl::Status error_;
  absl::Status looked_;  // what became of the chunk that Abort() named
};

}  // namespace remesh::worker
