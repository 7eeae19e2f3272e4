// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordination/action.h"
#include "server/coordination/outcome.h"

namespace remesh::server::coordination {

// How long a member whose stream ended may take to join again.
inline constexpr absl::Duration kRejoinTime = absl::Seconds(1);
// The same after a restart of the server, when all members have to.
inline constexpr absl::Duration kReturnTime = absl::Seconds(10);
// Rounds of which a member that is late has not got the outcome yet.
inline constexpr size_t kOpenRoundsMax = 1024;

// A process of the world. `nonce` proves that a later call is of the same process.
struct Member {
  std::string nonce;
  std::string host;
};

// A round whose outcome a member has, as it tells when it joins again. Of an OK outcome the digest
// stands for the payloads, and what the member contributed is there for those who lack the outcome.
struct Finished {
  uint64_t sequence = 0;
  Outcome outcome;
  std::string digest;
  Contribution contribution;
};

// A world that has formed: members 0 ... size - 1, each with a session (its Join stream), exchange
// contributions in numbered rounds. A round ends once, with one Outcome for all members, and a call
// that comes late or twice gets the same. The world is over when a member is lost, or when all have
// left; then rounds that have no outcome end as the world did.
//
// After a restart of the server the world is Returning(): it knows nothing but its size. Members
// join again with the rounds that they have finished since their last OK one, that one included.
// Until all are there, nothing is answered; a member that is not there in kReturnTime is lost.
//
// A value. Not thread-safe.
class World {
 public:
  // All members have joined: `sessions` are theirs, by rank.
  World(std::vector<Member> members, const std::vector<SessionId>& sessions);
  static World Returning(int size, absl::Time now);

  // A member joins again: after its stream broke, or after the server's restart. `finished`: in
  // order. Ends the member's older session.
  //
  // PERMISSION_DENIED if the nonce is another member's; FAILED_PRECONDITION (MEMBER_LEFT,
  // MEMBER_LOST) if it left or was lost; INVALID_ARGUMENT names the field.
  absl::Status JoinAgain(int rank, const Member& member, SessionId session,
                         std::vector<Finished> finished, Actions& actions);
  // The member's stream ended. It is lost if it does not join again in kRejoinTime.
  void OnSessionEnd(SessionId session, absl::Time now);
  // Rounds that lack the member's contribution end in MEMBER_LEFT. The world is over when all left.
  void Leave(int rank, Actions& actions);

  // `sequence`: 0 for the member's first round, then one more for each. The same call may come
  // again, and the one before it then is answered CALLED_AGAIN. Another contribution to the same
  // round, or a round out of order, is refused with INVALID_ARGUMENT. `deadline`: the earliest of
  // those who contributed holds for all.
  void Exchange(CallId call, int rank, const std::string& nonce, uint64_t sequence,
                Contribution contribution, absl::Time deadline, absl::Time now, Actions& actions);
  // The caller went away without its answer.
  void OnCallGone(CallId call);

  // Ends what is due: rounds at their deadline, members that did not come back.
  void OnTime(absl::Time now, Actions& actions);
  // When OnTime() has something to do next; InfiniteFuture if nothing waits for the time.
  absl::Time NextTime() const;

  // OK if the nonce is that of the member; PERMISSION_DENIED otherwise.
  absl::Status CheckMember(int rank, const std::string& nonce) const;
  // Whether the member has joined; always, except after a restart of the server.
  bool HasJoined(int rank) const;
  // The member's stream, if it has one now.
  std::optional<SessionId> SessionOf(int rank) const { return members_[rank].session; }
  bool HasLeft(int rank) const { return members_[rank].left; }
  // By rank; "" of a member that has not joined again after the server's restart.
  std::vector<std::string> Hosts() const;
  // "3@host-b".
  std::string NameOf(int rank) const;
  // The member whose loss ended the world, if one did.
  std::optional<int> lost() const { return lost_; }
  // Bytes of payloads that it holds, and how many more it may take: a round that would need more
  // ends in TOO_LARGE.
  size_t held() const { return held_; }
  void SetRoom(size_t bytes) { room_ = bytes; }
  // A round whose answer to a member would be larger ends in TOO_LARGE.
  void SetMessageMax(size_t bytes) { message_max_ = bytes; }
  // Drops all rounds of a world that is over: its end is the answer to calls that still come.
  void ForgetRounds();
  // Rounds that wait for members, the oldest `most` of them.
  struct Waiting {
    uint64_t sequence = 0;
    std::string name;
    Mode mode = Mode::kBarrier;
    absl::Time since;  // InfinitePast: no member has called since the server's restart
    std::vector<int> absent;
  };
  std::vector<Waiting> WaitingRounds(size_t most) const;
  // When the oldest of them began in which a member waits; InfiniteFuture if none does.
  absl::Time OldestWaiting() const;

  int size() const { return static_cast<int>(members_.size()); }
  bool returning() const { return return_deadline_ != absl::InfiniteFuture(); }
  // Why the world is over; null while it lives.
  const Outcome* over() const { return over_.get(); }

 private:
  struct Seat {
    Member member;  // without a nonce until it joined again
    std::optional<SessionId> session;
    absl::Time lost_at = absl::InfiniteFuture();  // if it does not join again
    bool left = false;
    uint64_t contributed = 0;  // to this many rounds
  };
  struct Round {
    Contributions contributions;
    absl::Time since = absl::InfinitePast();  // when the first call of it came
    absl::Time deadline = absl::InfiniteFuture();
    int came = 0;                 // members that contributed
    size_t bytes = 0;             // of payloads
    std::map<int, CallId> calls;  // that wait, by rank
    SharedOutcome outcome;        // null: none yet
    std::string digest;           // of the outcome that a member has; "" if none said so
  };

  friend class RegistryTestPeer;
  friend class WorldTestPeer;

  explicit World(int size) : members_(size) {}

  absl::Status CheckMayJoin(int rank, const Member& member) const;
  absl::Status CheckContribution(int rank, const std::string& nonce, uint64_t sequence,
                                 const Contribution& contribution) const;
  absl::Status CheckFinished(const std::vector<Finished>& finished) const;
  void Recall(int rank, Finished finished, Actions& actions);
  void EndReturn(Actions& actions);
  void Settle(uint64_t sequence, Actions& actions);
  std::optional<Outcome> OutcomeOf(uint64_t sequence) const;
  void End(Outcome why, Actions& actions);
  void Lose(int rank, const std::string& why, Actions& actions);
  void LoseForRoom(int rank, Actions& actions);
  Outcome HasLeftFailure(int rank) const;
  Outcome NotRepeated(const Round& round) const;
  void SetOutcome(Round& round, Outcome outcome, Actions& actions);
  void AddContribution(Round& round, int rank, Contribution contribution);
  void DropContributions(Round& round);
  bool HasRoom(const Round& round, int rank, const Contribution& contribution) const;
  void AnswerCalls(Round& round, Actions& actions);
  void DropRounds();

  std::vector<Seat> members_;  // by rank
  std::map<uint64_t, Round> rounds_;
  absl::Time return_deadline_ = absl::InfiniteFuture();
  SharedOutcome over_;  // null while it lives
  std::optional<int> lost_;
  int left_ = 0;  // members
  size_t held_ = 0;
  size_t room_ = SIZE_MAX;
  size_t message_max_ = kMessageMax;
};

}  // namespace remesh::server::coordination
