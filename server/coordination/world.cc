// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/world.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace remesh::server::coordination {
namespace {

absl::Status Ended(const std::string& message, const std::string& reason) {
  return MakeError(absl::StatusCode::kFailedPrecondition, message, {reason, {}});
}

// What members get that get no payloads.
SharedOutcome WithoutPayloads(const Outcome& outcome) {
  auto without = std::make_shared<Outcome>();
  without->ending = outcome.ending;
  without->message = outcome.message;
  without->metadata = outcome.metadata;
  without->to = outcome.to;
  return without;
}

// Whether a member that has this outcome knows that the world is over.
bool EndsWorld(const Outcome& outcome) {
  return outcome.ending == Ending::kMemberLost || outcome.ending == Ending::kResultsDiffer;
}

// A failed round needs no payloads any more.
bool NeedsContributions(const SharedOutcome& outcome) {
  return !outcome || outcome->ending == Ending::kOk;
}

Outcome NoRoom(const Contribution& contribution) {
  return Failure(Ending::kTooLarge,
                 absl::StrCat(contribution.name, ": the server has no room for another ",
                              contribution.payload.size(), " bytes of payloads"));
}

}  // namespace

World::World(std::vector<Member> members, const std::vector<SessionId>& sessions)
    : World(static_cast<int>(members.size())) {
  REMESH_CHECK(!members.empty() && members.size() == sessions.size());
  for (size_t rank = 0; rank < members.size(); ++rank) {
    members_[rank].member = std::move(members[rank]);
    members_[rank].session = sessions[rank];
  }
}

World World::Returning(int size, absl::Time now) {
  World world(size);
  world.return_deadline_ = now + kReturnTime;
  return world;
}

absl::Status World::JoinAgain(int rank, const Member& member, SessionId session,
                              std::vector<Finished> finished, Actions& actions) {
  RETURN_IF_ERROR(CheckMayJoin(rank, member));
  RETURN_IF_ERROR(CheckFinished(finished));
  Seat& seat = members_[rank];
  if (seat.session) actions.push_back(EndSession{*seat.session});
  seat.member = member;
  seat.session = session;
  seat.lost_at = absl::InfiniteFuture();
  if (returning()) {
    for (Finished& each : finished) {
      if (!over_) Recall(rank, std::move(each), actions);
    }
    EndReturn(actions);
  }
  return absl::OkStatus();
}

absl::Status World::CheckFinished(const std::vector<Finished>& finished) const {
  size_t rounds = rounds_.size();
  for (const Finished& each : finished) {
    if (each.contribution.root >= size()) {
      return InvalidField("finished", absl::StrCat(each.contribution.root),
                          absl::StrCat("must have roots below ", size()));
    }
    if (!rounds_.contains(each.sequence)) ++rounds;
  }
  // A member is at most kOpenRoundsMax rounds ahead of another.
  if (rounds <= 2 * kOpenRoundsMax) return absl::OkStatus();
  return InvalidField("finished", absl::StrCat(finished.front().sequence),
                      "must be rounds near those of the other members");
}

absl::Status World::CheckMayJoin(int rank, const Member& member) const {
  if (rank < 0 || rank >= size()) {
    return InvalidField("rank", absl::StrCat(rank),
                        absl::StrCat("must be 0 to ", size() - 1, " in this world"));
  }
  const Seat& seat = members_[rank];
  if (over_) return Ended(over_->message, coordination::NameOf(over_->ending));
  if (seat.left) return Ended(absl::StrCat(NameOf(rank), " has left"), "MEMBER_LEFT");
  const bool known = !seat.member.nonce.empty();
  if (known && seat.member.nonce != member.nonce) {
    return MakeError(absl::StatusCode::kPermissionDenied,
                     absl::StrCat("nonce: is not that of member ", NameOf(rank)),
                     {"NOT_THE_MEMBER", {{"rank", absl::StrCat(rank)}}});
  }
  return absl::OkStatus();
}

// Takes over what the member knows of a round that ended before the restart.
void World::Recall(int rank, Finished finished, Actions& actions) {
  if (EndsWorld(finished.outcome)) return End(std::move(finished.outcome), actions);
  Round& round = rounds_[finished.sequence];
  Seat& seat = members_[rank];
  if (seat.contributed <= finished.sequence) ++round.came;
  // It may have called again since it joined again before.
  seat.contributed = std::max(seat.contributed, finished.sequence + 1);
  const bool ok = finished.outcome.ending == Ending::kOk;
  const bool other = !round.digest.empty() && round.digest != finished.digest;
  if (other || (ok && round.outcome)) {
    return End(Failure(Ending::kResultsDiffer,
                       absl::StrCat(NameOf(rank), " came back with another outcome of round ",
                                    finished.sequence, " than others")),
               actions);
  }
  if (!ok) {
    if (!round.outcome) {
      round.outcome = std::make_shared<const Outcome>(std::move(finished.outcome));
    }
    return;
  }
  round.digest = std::move(finished.digest);
  if (!HasRoom(round, rank, finished.contribution)) return LoseForRoom(rank, actions);
  AddContribution(round, rank, std::move(finished.contribution));
}

// Goes on once all members are back.
void World::EndReturn(Actions& actions) {
  if (!returning()) return;
  for (const Seat& seat : members_) {
    if (!seat.session && !seat.left) return;
  }
  return_deadline_ = absl::InfiniteFuture();
  std::vector<uint64_t> sequences;
  for (const auto& [sequence, round] : rounds_) sequences.push_back(sequence);
  for (uint64_t sequence : sequences) Settle(sequence, actions);
  DropRounds();
}

void World::OnSessionEnd(SessionId session, absl::Time now) {
  for (Seat& seat : members_) {
    if (seat.session != session) continue;
    seat.session.reset();
    if (!seat.left) seat.lost_at = now + kRejoinTime;
  }
}

void World::Leave(int rank, Actions& actions) {
  Seat& seat = members_[rank];
  if (std::exchange(seat.left, true)) return;
  ++left_;
  seat.lost_at = absl::InfiniteFuture();
  std::vector<uint64_t> open;
  for (const auto& [sequence, round] : rounds_) {
    if (!round.outcome) open.push_back(sequence);
  }
  for (uint64_t sequence : open) Settle(sequence, actions);
  if (left_ == size()) return End(Failure(Ending::kMemberLeft, "all members have left"), actions);
  EndReturn(actions);  // it may have been the last that was awaited
}

void World::Exchange(CallId call, int rank, const std::string& nonce, uint64_t sequence,
                     Contribution contribution, absl::Time deadline, absl::Time now,
                     Actions& actions) {
  absl::Status status = CheckContribution(rank, nonce, sequence, contribution);
  if (!status.ok()) {
    actions.push_back(Answer{call, std::move(status)});
    return;
  }
  const auto known = rounds_.find(sequence);
  const bool has_outcome = known != rounds_.end() && known->second.outcome;
  if (over_ && !has_outcome) {
    actions.push_back(Answer{call, over_});
    return;
  }
  Seat& seat = members_[rank];
  if (seat.left && (sequence == seat.contributed || known == rounds_.end())) {
    actions.push_back(Answer{call, std::make_shared<const Outcome>(HasLeftFailure(rank))});
    return;
  }
  Round& round = rounds_[sequence];
  if (seat.contributed <= sequence) ++round.came;
  seat.contributed = std::max(seat.contributed, sequence + 1);
  // While members are joining again, one of them may have the outcome already.
  const bool open = !returning() && !round.outcome && round.digest.empty();
  if (NeedsContributions(round.outcome) && !HasRoom(round, rank, contribution)) {
    // A round that may have ended well cannot end otherwise for this member: the world ends.
    if (!open) LoseForRoom(rank, actions);
    if (over_) {
      actions.push_back(Answer{call, over_});
      return;
    }
    SetOutcome(round, NoRoom(contribution), actions);
  }
  if (NeedsContributions(round.outcome)) AddContribution(round, rank, std::move(contribution));
  if (round.since == absl::InfinitePast()) round.since = now;
  round.deadline = std::min(round.deadline, deadline);
  const auto [earlier, added] = round.calls.emplace(rank, call);
  if (!added) {
    actions.push_back(Answer{earlier->second, CalledAgain()});
    earlier->second = call;
  }
  Settle(sequence, actions);
  // When all have come to a round, they have the outcome of the one before.
  if (rounds_.at(sequence).came == size() || left_ > 0) DropRounds();
}

void World::AddContribution(Round& round, int rank, Contribution contribution) {
  const size_t bytes = contribution.payload.size();
  const auto [at, added] = round.contributions.try_emplace(rank, std::move(contribution));
  if (!added) return;  // the same, again
  round.bytes += bytes;
  held_ += bytes;
  room_ -= std::min(room_, bytes);
}

bool World::HasRoom(const Round& round, int rank, const Contribution& contribution) const {
  return round.contributions.contains(rank) || contribution.payload.size() <= room_;
}

void World::LoseForRoom(int rank, Actions& actions) {
  Lose(rank, "came back with more payloads than the server has room for", actions);
}

void World::DropContributions(Round& round) {
  held_ -= std::exchange(round.bytes, 0);
  round.contributions.clear();
}

absl::Status World::CheckMember(int rank, const std::string& nonce) const {
  if (HasJoined(rank) && members_[rank].member.nonce == nonce) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied,
                   absl::StrCat("nonce: is not that of member ", rank),
                   {"NOT_THE_MEMBER", {{"rank", absl::StrCat(rank)}}});
}

bool World::HasJoined(int rank) const {
  return rank >= 0 && rank < size() && !members_[rank].member.nonce.empty();
}

std::vector<World::Waiting> World::WaitingRounds(size_t most) const {
  std::vector<Waiting> waiting;
  for (const auto& [sequence, round] : rounds_) {
    if (waiting.size() == most) break;
    if (round.outcome || round.contributions.empty()) continue;
    const Contribution& first = round.contributions.begin()->second;
    Waiting& each = waiting.emplace_back();
    each = {.sequence = sequence, .name = first.name, .mode = first.mode, .since = round.since};
    for (int rank = 0; rank < size(); ++rank) {
      if (!round.contributions.contains(rank)) each.absent.push_back(rank);
    }
  }
  return waiting;
}

absl::Time World::OldestWaiting() const {
  absl::Time oldest = absl::InfiniteFuture();
  for (const auto& [sequence, round] : rounds_) {
    if (round.outcome || round.contributions.empty()) continue;
    if (round.since != absl::InfinitePast()) oldest = std::min(oldest, round.since);
  }
  return oldest;
}

absl::Status World::CheckContribution(int rank, const std::string& nonce, uint64_t sequence,
                                      const Contribution& contribution) const {
  RETURN_IF_ERROR(CheckMember(rank, nonce));
  const Seat& seat = members_[rank];
  const bool again = sequence + 1 == seat.contributed;
  if (!again && sequence != seat.contributed) {
    return InvalidField("sequence", absl::StrCat(sequence),
                        absl::StrCat("must be ", seat.contributed, ", or the round before"));
  }
  if (contribution.root >= size()) {
    return InvalidField("contribution.root", absl::StrCat(contribution.root),
                        absl::StrCat("must be below ", size(), ", the size of this world"));
  }
  const auto round = rounds_.find(sequence);
  if (round == rounds_.end()) {
    if (rounds_.size() < kOpenRoundsMax) return absl::OkStatus();
    return MakeError(absl::StatusCode::kResourceExhausted,
                     absl::StrCat("a member has not come to the last ", kOpenRoundsMax, " rounds"),
                     {"TOO_MANY_ROUNDS", {}});
  }
  const auto before = round->second.contributions.find(rank);
  if (again && before != round->second.contributions.end() && before->second != contribution) {
    return InvalidField("payload", contribution.name,
                        "must be what the member contributed to this round before");
  }
  return absl::OkStatus();
}

void World::OnCallGone(CallId call) {
  for (auto& [sequence, round] : rounds_) {
    std::erase_if(round.calls, [&](const auto& waiting) { return waiting.second == call; });
  }
}

// Gives the round its outcome if it is time, and answers who waits for it.
void World::Settle(uint64_t sequence, Actions& actions) {
  if (returning()) return;
  Round& round = rounds_[sequence];
  if (!round.outcome) {
    std::optional<Outcome> outcome = OutcomeOf(sequence);
    if (!outcome) return;
    SetOutcome(round, *std::move(outcome), actions);
  }
  if (round.outcome->ending == Ending::kResultsDiffer) {
    End(*round.outcome, actions);
    return;
  }
  AnswerCalls(round, actions);
}

void World::SetOutcome(Round& round, Outcome outcome, Actions& actions) {
  actions.push_back(RoundEnded{outcome.ending, round.since});
  round.outcome = std::make_shared<const Outcome>(std::move(outcome));
}

// Nothing while members are awaited.
std::optional<Outcome> World::OutcomeOf(uint64_t sequence) const {
  const Round& round = rounds_.at(sequence);
  if (left_ == 0 && round.contributions.size() < members_.size()) return std::nullopt;
  for (int rank = 0; rank < size(); ++rank) {
    if (round.contributions.contains(rank)) continue;
    if (!members_[rank].left) return std::nullopt;
    return HasLeftFailure(rank);
  }
  Outcome outcome = Decide(round.contributions, Hosts(), message_max_);
  if (round.digest.empty() || round.digest == DigestOf(outcome)) return outcome;
  return Failure(Ending::kResultsDiffer,
                 absl::StrCat(round.contributions.begin()->second.name,
                              ": members came back with other payloads than before"));
}

Outcome World::HasLeftFailure(int rank) const {
  return Failure(Ending::kMemberLeft, absl::StrCat(NameOf(rank), " has left"));
}

void World::AnswerCalls(Round& round, Actions& actions) {
  const bool ok = round.outcome->ending == Ending::kOk;
  if (ok && round.digest.empty() && !round.calls.empty()) round.digest = DigestOf(*round.outcome);
  const int to = round.outcome->to;
  const SharedOutcome without = to == -1 ? round.outcome : WithoutPayloads(*round.outcome);
  for (const auto& [rank, call] : round.calls) {
    actions.push_back(Answer{call, rank == to ? round.outcome : without, round.digest});
  }
  round.calls.clear();
  if (!NeedsContributions(round.outcome)) DropContributions(round);
}

void World::OnTime(absl::Time now, Actions& actions) {
  if (over_) return;
  for (int rank = 0; rank < size(); ++rank) {
    const Seat& seat = members_[rank];
    if (now >= return_deadline_ && !seat.session && !seat.left) {
      return Lose(rank, "did not join again after the server's restart", actions);
    }
    if (now >= seat.lost_at) return Lose(rank, "is lost: its stream ended", actions);
  }
  if (returning()) return;
  for (auto& [sequence, round] : rounds_) {
    if (round.outcome || now < round.deadline) continue;
    if (!round.digest.empty()) {
      End(NotRepeated(round), actions);
      return;
    }
    SetOutcome(round, TimedOut(round.contributions, Hosts()), actions);
    AnswerCalls(round, actions);
  }
}

void World::Lose(int rank, const std::string& why, Actions& actions) {
  lost_ = rank;
  End(Failure(Ending::kMemberLost, absl::StrCat(NameOf(rank), " ", why)), actions);
}

// A round that ended well for one member cannot end as late for another.
Outcome World::NotRepeated(const Round& round) const {
  int absent = 0;
  while (round.contributions.contains(absent)) ++absent;
  return Failure(Ending::kMemberLost, absl::StrCat(NameOf(absent), " did not repeat its call \"",
                                                   round.contributions.begin()->second.name,
                                                   "\" after the server's restart"));
}

absl::Time World::NextTime() const {
  absl::Time next = absl::InfiniteFuture();
  if (over_) return next;
  next = return_deadline_;
  for (const Seat& seat : members_) next = std::min(next, seat.lost_at);
  if (returning()) return next;
  for (const auto& [sequence, round] : rounds_) {
    if (!round.outcome) next = std::min(next, round.deadline);
  }
  return next;
}

// The end of the epoch, for all: rounds without an outcome get this one.
void World::End(Outcome why, Actions& actions) {
  over_ = std::make_shared<const Outcome>(std::move(why));
  return_deadline_ = absl::InfiniteFuture();
  for (auto& [sequence, round] : rounds_) {
    if (!round.outcome) SetOutcome(round, *over_, actions);
    AnswerCalls(round, actions);
  }
}

// Forgets rounds whose outcome every member has: it contributed to a later one.
void World::DropRounds() {
  uint64_t needed = UINT64_MAX;
  for (const Seat& seat : members_) {
    if (!seat.left) needed = std::min(needed, seat.contributed);
  }
  // A member may ask again for the last round that it contributed to.
  while (!rounds_.empty() && rounds_.begin()->first + 1 < needed) {
    DropContributions(rounds_.begin()->second);
    rounds_.erase(rounds_.begin());
  }
}

void World::ForgetRounds() {
  rounds_.clear();
  held_ = 0;
}

std::vector<std::string> World::Hosts() const {
  std::vector<std::string> hosts;
  for (const Seat& seat : members_) hosts.push_back(seat.member.host);
  return hosts;
}

std::string World::NameOf(int rank) const {
  const std::string& host = members_[rank].member.host;
  return host.empty() ? absl::StrCat("member ", rank) : absl::StrCat(rank, "@", host);
}

}  // namespace remesh::server::coordination
