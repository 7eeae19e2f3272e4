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

// The state machine of one attempt of an execution on this host. It is pure: methods take events
// and return the actions that the caller must carry out in order. The result of an action comes
// back as another event.
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
// The attempt reports kFailed to the planner, which then aborts it.
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
  struct MarkVerified {};  // record on disk that the target is verified; -> MarkedVerified()
  struct MarkReady {};     // record on disk that the target is readable; -> MarkedReady()
  struct LookAgain {       // hash again a chunk that arrived damaged at some host; -> LookedAgain()
    ChunkName chunk;
  };
  struct AskWaits {};    // which hosts this host waits for, as an attempt stalls; -> LookedAgain()
  struct StopMoving {};  // close every endpoint; -> Stopped()
  struct DropTarget {    // free the target's shards and all else
    bool even_committed = false;
  };
  struct Send {
    v1::AttachRequest message;
  };
  using Action = std::variant<Reserve, FetchProgram, Open, GrantWindows, CheckSources, MarkVerified,
                              MarkReady, LookAgain, AskWaits, StopMoving, DropTarget, Send>;
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

  // Commands of the planner. A command that comes too early fails the attempt
  // (COMMAND_OUT_OF_ORDER). A repeated command changes nothing, but may repeat its answer.
  Actions Grant(int32_t until);
  Actions Verify();
  Actions Commit();
  // A committed target stays committed unless `even_committed`. `why` is the error that another
  // host reported: if it names a chunk, this host hashes that chunk again before it stops; if it is
  // LINK_STALLED, this host says in Quiesced what it waits for itself.
  Actions Abort(bool even_committed = false, const absl::Status& why = absl::OkStatus());

  // The reports that the planner may have missed while this host was not attached.
  Actions Reattached() const;

  const v1::Prepare& prepare() const { return prepare_; }
  Phase phase() const { return phase_; }
  // Whether the attempt still uses the state's shards.
  bool active() const { return phase_ != Phase::kCommitted && phase_ != Phase::kOver; }
  // Whether the attempt has ended and can be forgotten.
  bool over() const { return phase_ == Phase::kOver; }

 private:
  // Enters `next` and returns `actions`. Fails instead if `status` is an error; does nothing if the
  // phase is no longer `expected` because an Abort came first.
  Actions Step(Phase expected, const absl::Status& status, Phase next, Actions actions);
  Actions Fail(const absl::Status& status);
  Actions OutOfOrder(const char* command);
  Send Prepared() const;
  Send Verified() const;
  Send Committed() const;
  Send Failed() const;
  Send Progress() const;

  const v1::Prepare prepare_;
  Phase phase_ = Phase::kReserving;
  int32_t granted_ = 0;
  bool undone_ = false;  // the decision to commit was taken back
  WindowReport last_{.window = -1};
  absl::Status error_;
  absl::Status looked_;  // result of hashing the chunk that Abort() named again
};

}  // namespace remesh::worker
