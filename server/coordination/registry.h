// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "remesh/v1/coordination.pb.h"
#include "server/coordination/action.h"
#include "server/coordination/fair_share.h"
#include "server/coordination/figures.h"
#include "server/coordination/forming.h"
#include "server/coordination/scope.h"

namespace remesh::server::coordination {

// Worlds that the registry remembers, and how long it does without members. What there is of these
// and of the below is shared among jobs: see FairShare.
inline constexpr size_t kScopesMax = 10'000;
inline constexpr absl::Duration kForgetAfter = absl::Hours(24 * 7);
// Join streams at once, of all worlds.
inline constexpr size_t kSessionsMax = 65'536;
// Bytes of payloads of all worlds together, and how long those of a world that is over are kept for
// members that ask again.
inline constexpr size_t kHeldMax = size_t{256} << 20;
inline constexpr absl::Duration kAskAgainTime = absl::Seconds(60);
// Bytes of a page of worlds that are listed.
inline constexpr size_t kListBytesMax = size_t{2} << 20;

// By how much a member's word may raise the epochs over those that the disk knows.
inline constexpr int64_t kEpochLeap = int64_t{1} << 20;
// From where epochs go on when the disk went back: beyond all that were given since, also if it goes
// back to the same again. Milliseconds: fewer worlds form.
int64_t EpochBeyond(int64_t last_epoch, absl::Time now);

// What is on disk of the present world of a scope.
struct KnownEpoch {
  int64_t epoch = 0;
  int size = 0;
  absl::Time formed;
};

// A process that was a member before its stream broke, or before the server's restart.
struct Returned {
  Process process;
  int64_t epoch = 0;
  int rank = 0;
  int size = 0;
  std::vector<Finished> finished;
  std::optional<int64_t> agreed_step;
  std::optional<v1::WorldEvent::Preempt> preempt;  // as the member received it
};

// Who calls, as a call says it.
struct Caller {
  std::string scope;
  int64_t epoch = 0;
  int rank = 0;
  std::string nonce;
};

// The worlds of all scopes: those that form, and the last one that formed, which has the scope's
// present epoch even when it is over. Epochs rise through all scopes. A value that does no I/O and
// has no clock: events and the time go in, actions come out. Not thread-safe.
class Registry {
 public:
  // After a start of the server. Members of worlds that are on disk may join again; no other world
  // of such a scope forms in the first kReturnTime, in which they may not have come back yet.
  // `message_max`: see World::SetMessageMax().
  Registry(int64_t last_epoch, const std::map<std::string, KnownEpoch>& known, absl::Time now,
           size_t message_max = kMessageMax);

  // A process waits for the scope's next world. A member of the present world is back in it.
  //
  // ALREADY_EXISTS (RANK_TAKEN) with host and pid of a living process that has the rank, or that
  // has host and local index if none was asked for. RESOURCE_EXHAUSTED (TOO_MANY_WORLDS,
  // TOO_MANY_MEMBERS). INVALID_ARGUMENT names the field.
  absl::Status Join(const std::string& scope, const std::string& attempt, Candidate candidate,
                    absl::Time now, Actions& actions);
  // FAILED_PRECONDITION (STALE_EPOCH), and as World::JoinAgain().
  absl::Status JoinAgain(const std::string& scope, SessionId session, Returned returned,
                         absl::Time now, Actions& actions);
  void OnSessionEnd(SessionId session, absl::Time now, Actions& actions);

  // See World::Exchange(). STALE_EPOCH; UNAVAILABLE (JOIN_AGAIN) before the member has joined again.
  void Exchange(CallId call, const Caller& caller, uint64_t sequence, Contribution contribution,
                absl::Time deadline, absl::Time now, Actions& actions);
  // See StepAgreement.
  void AgreeStep(CallId call, const Caller& caller, int64_t step, absl::Time deadline,
                 absl::Time now, Actions& actions);
  void OnCallGone(const std::string& scope, CallId call);
  absl::Status Leave(const Caller& caller, absl::Time now, Actions& actions);
  // Tells the members to agree on a step and leave. Of several calls the last size and the earliest
  // deadline hold; one that changes neither is sent to no member.
  //
  // NOT_FOUND (WORLD_NOT_FOUND) if the scope has had no world; FAILED_PRECONDITION (WORLD_OVER) if
  // its world has no members, WORLD_LEAVES if they have agreed, STALE_EPOCH unless `epoch` is the
  // present one or 0; UNAVAILABLE (JOIN_AGAIN) before they have joined again.
  absl::Status Preempt(const std::string& scope, int64_t epoch,
                       const v1::WorldEvent::Preempt& preempt, absl::Time now, Actions& actions);

  // The answer to SaveEpoch.
  void OnSaved(const std::string& scope, const absl::Status& status, absl::Time now,
               Actions& actions);
  void OnTime(absl::Time now, Actions& actions);
  // When OnTime() has something to do next; InfiniteFuture if nothing waits for the time.
  absl::Time NextTime() const;

  // Those whose names begin with `prefix`: by name, after the name `after`, at most `most`, and no
  // more once they have kListBytesMax. `more`: there are others.
  struct Listed {
    std::vector<v1::World> worlds;
    bool more = false;
  };
  Listed List(std::string_view prefix, std::string_view after, size_t most) const;
  size_t sessions() const { return sessions_.size(); }
  size_t held() const { return held_.used(); }  // bytes of payloads
  WorldFigures figures(absl::Time now) const;

 private:
  friend class RegistryTestPeer;

  Scope& AddScope(const std::string& name);
  void DropScope(const std::string& name);
  void AddSession(SessionId session, const std::string& scope);
  void DropSession(SessionId session);
  absl::Status MakeRoom(const std::string& scope, Actions& actions);
  std::optional<std::string> FindForgettable(std::string_view job) const;
  // The living world that the caller is a member of.
  absl::StatusOr<Scope*> FindFor(const Caller& caller);
  void SendBack(const Scope& scope, int rank, bool with_members, Actions& actions);
  absl::Status CheckMayPreempt(const std::string& name, int64_t epoch, absl::Time now) const;
  void SendPreempt(const Scope& scope, Actions& actions);
  void SettleSteps(Scope& scope, absl::Time now, Actions& actions);
  bool MayForm(const Scope& scope, absl::Time now) const;
  absl::Time BlockedUntil(const Scope& scope) const;
  void TryForm(const std::string& name, Scope& scope, absl::Time now, Actions& actions);
  void RefuseTaken(Scope& scope, Actions& actions);
  void CountHeld(std::string_view name, Scope& scope);
  void EndIfOver(Scope& scope, absl::Time now, Actions& actions);

  std::map<std::string, Scope, std::less<>> scopes_;
  absl::flat_hash_map<SessionId, std::string> sessions_;  // scope of each
  size_t message_max_;
  int64_t last_epoch_ = 0;
  FairShare scope_shares_{kScopesMax};
  FairShare session_shares_{kSessionsMax};
  FairShare held_{kHeldMax};  // bytes of payloads
  absl::Time return_until_;
};

}  // namespace remesh::server::coordination
