// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/registry.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/coordination/fences.h"
#include "server/coordination/messages.h"
#include "server/coordination/preemption.h"

namespace remesh::server::coordination {
namespace {

absl::Status TooMany(const char* what, size_t most, const char* reason) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("there are ", most, " ", what, " already"),
                   {.reason = reason, .metadata = {{"most", absl::StrCat(most)}}});
}

absl::Status JoinFirst() {
  return MakeError(absl::StatusCode::kUnavailable,
                   "the server restarted: the member must join again first",
                   {.reason = "JOIN_AGAIN", .metadata = {}});
}

// Of a scope's name.
std::string_view JobOf(std::string_view scope) { return scope.substr(0, scope.find("/worlds/")); }

absl::Status TimedOut(const Forming& forming) {
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("the world has not formed in time: ", forming.Describe()),
                   {.reason = "WORLD_TIMEOUT", .metadata = {{"absent", forming.Absent()}}});
}

}  // namespace

int64_t EpochBeyond(int64_t last_epoch, absl::Time now) {
  const int64_t by_time = absl::ToUnixMillis(now);
  return by_time > last_epoch ? by_time : last_epoch + kEpochLeap;  // the clock is wrong
}

Registry::Registry(int64_t last_epoch, const std::map<std::string, KnownEpoch>& known,
                   absl::Time now, size_t message_max)
    : message_max_(message_max), last_epoch_(last_epoch), return_until_(now + kReturnTime) {
  for (const auto& [name, each] : known) {
    Scope& scope = AddScope(name);
    scope.epoch = each.epoch;
    scope.size = each.size;
    // Until when it had members is not known; it may have some still.
    scope.since = std::max(each.formed, now);
    last_epoch_ = std::max(last_epoch_, each.epoch);
  }
}

Scope& Registry::AddScope(const std::string& name) {
  const auto [at, added] = scopes_.try_emplace(name);
  if (added) scope_shares_.Take(JobOf(name), 1);
  return at->second;
}

void Registry::DropScope(const std::string& name) {
  const auto at = scopes_.find(name);
  held_.Give(JobOf(name), at->second.held);
  scope_shares_.Give(JobOf(name), 1);
  scopes_.erase(at);
}

void Registry::AddSession(SessionId session, const std::string& scope) {
  if (sessions_.emplace(session, scope).second) session_shares_.Take(JobOf(scope), 1);
}

void Registry::DropSession(SessionId session) {
  const auto at = sessions_.find(session);
  if (at == sessions_.end()) return;
  session_shares_.Give(JobOf(at->second), 1);
  sessions_.erase(at);
}

absl::Status Registry::Join(const std::string& name, const std::string& attempt,
                            Candidate candidate, absl::Time now, Actions& actions) {
  RETURN_IF_ERROR(MakeRoom(name, actions));
  const SessionId session = candidate.session;
  Scope& scope = AddScope(name);
  if (const std::optional<int> rank = RankOf(scope, candidate.process.nonce)) {
    const Member member{candidate.process.nonce, candidate.process.host};
    RETURN_IF_ERROR(scope.world->JoinAgain(*rank, member, session, {}, actions));
    AddSession(session, name);
    SendBack(scope, *rank, /*with_members=*/true, actions);
    return absl::OkStatus();
  }
  if (Candidate* const member = FindSaving(scope, candidate.process.nonce)) {
    if (member->session != 0) actions.push_back(EndSession{member->session});
    member->session = session;
    AddSession(session, name);
    return absl::OkStatus();
  }
  absl::Status status = CheckNotTaken(scope, candidate);
  if (status.ok()) status = scope.forming[attempt].Add(std::move(candidate), now, actions);
  std::erase_if(scope.forming, [](const auto& each) { return each.second.empty(); });
  if (status.ok()) {
    AddSession(session, name);
    if (scope.epoch == 0 && scope.since == absl::Time()) scope.since = now;
    TryForm(name, scope, now, actions);
  } else if (scope.epoch == 0 && HasNoProcess(scope)) {
    DropScope(name);
  }
  return status;
}

// Makes room for one more scope and one more session.
absl::Status Registry::MakeRoom(const std::string& name, Actions& actions) {
  if (session_shares_.RoomFor(JobOf(name)) == 0) {
    return TooMany("members of worlds", kSessionsMax, "TOO_MANY_MEMBERS");
  }
  if (scope_shares_.RoomFor(JobOf(name)) > 0 || scopes_.contains(name)) return absl::OkStatus();
  const std::optional<std::string> forgettable = FindForgettable(JobOf(name));
  if (!forgettable) return TooMany("worlds", kScopesMax, "TOO_MANY_WORLDS");
  actions.push_back(ForgetScope{*forgettable, last_epoch_});
  DropScope(*forgettable);
  return absl::OkStatus();
}

// The oldest scope without processes, of the job that has the most of them, to make room for one of
// `job`: never at the cost of a job that has fewer.
std::optional<std::string> Registry::FindForgettable(std::string_view job) const {
  const auto order = [this](const auto& entry) {
    const auto& [name, scope] = entry;
    return std::tuple(scope_shares_.most() - scope_shares_.UsedBy(JobOf(name)), scope.since,
                      scope.epoch);
  };
  auto found = scopes_.end();
  for (auto each = scopes_.begin(); each != scopes_.end(); ++each) {
    if (!HasNoProcess(each->second)) continue;
    const std::string_view other = JobOf(each->first);
    if (other != job && scope_shares_.UsedBy(other) <= scope_shares_.UsedBy(job)) continue;
    if (found == scopes_.end() || order(*each) < order(*found)) found = each;
  }
  if (found == scopes_.end()) return std::nullopt;
  return found->first;
}

absl::Status Registry::JoinAgain(const std::string& name, SessionId session, Returned returned,
                                 absl::Time now, Actions& actions) {
  const auto at = scopes_.find(name);
  const int64_t present = at == scopes_.end() ? 0 : at->second.epoch;
  if (returned.epoch > last_epoch_ && returned.epoch - last_epoch_ <= kEpochLeap) {
    last_epoch_ = returned.epoch;  // the disk went back
  }
  if (present == 0 || returned.epoch != present) return StaleEpoch(name, returned.epoch, present);
  Scope& scope = at->second;
  if (returned.size != scope.size) {
    return InvalidField("size", absl::StrCat(returned.size),
                        absl::StrCat("must be ", scope.size, " in this world"));
  }
  if (session_shares_.Free() == 0) {
    return TooMany("members of worlds", kSessionsMax, "TOO_MANY_MEMBERS");
  }
  if (!scope.world) {
    scope.world = World::Returning(scope.size, now);
    scope.world->SetMessageMax(message_max_);
    scope.members.resize(scope.size);
    scope.since = now;
  }
  const Member member{returned.process.nonce, returned.process.host};
  const int rank = returned.rank;
  scope.world->SetRoom(held_.Free());  // what fitted before the restart fits again
  RETURN_IF_ERROR(
      scope.world->JoinAgain(rank, member, session, std::move(returned.finished), actions));
  AddSession(session, name);
  scope.members[rank] = std::move(returned.process);
  const bool reports = returned.preempt && !scope.preempt;
  if (reports) {
    scope.preempt = std::move(returned.preempt);
    scope.preempted = now;
  }
  if (returned.agreed_step) {
    scope.steps.Recall({*returned.agreed_step, scope.preempt.value_or(v1::WorldEvent::Preempt())});
  }
  SendBack(scope, rank, /*with_members=*/false, actions);
  if (reports) SendPreempt(scope, actions);
  SettleSteps(scope, now, actions);
  CountHeld(name, scope);
  EndIfOver(scope, now, actions);
  return absl::OkStatus();
}

// Tells a member that it is back in its world.
void Registry::SendBack(const Scope& scope, int rank, bool with_members, Actions& actions) {
  const SessionId session = *scope.world->SessionOf(rank);
  actions.push_back(SendFormed{session, FormedOf(scope, with_members), rank});
  if (scope.preempt) actions.push_back(Send{session, PreemptEvent(*scope.preempt)});
}

void Registry::OnSessionEnd(SessionId session, absl::Time now, Actions& actions) {
  const auto at = sessions_.find(session);
  if (at == sessions_.end()) return;
  const std::string name = at->second;
  DropSession(session);
  // A process that joined again may have gone, and its scope with it, before its first stream ends.
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) return;
  Scope& scope = found->second;
  if (scope.world) scope.world->OnSessionEnd(session, now);
  for (auto& [attempt, forming] : scope.forming) forming.Remove(session);
  std::erase_if(scope.forming, [](const auto& each) { return each.second.empty(); });
  if (scope.saving) {
    for (Candidate& each : scope.saving->members) {
      if (each.session == session) each.session = 0;
    }
  }
  if (scope.epoch == 0 && HasNoProcess(scope)) {
    DropScope(name);
    return;
  }
  // One that asked for a rank above those that wait may have held up the others.
  TryForm(name, scope, now, actions);
}

absl::StatusOr<Scope*> Registry::FindFor(const Caller& caller) {
  const auto at = scopes_.find(caller.scope);
  const int64_t present = at == scopes_.end() ? 0 : at->second.epoch;
  if (present == 0 || caller.epoch != present) {
    return StaleEpoch(caller.scope, caller.epoch, present);
  }
  Scope& scope = at->second;
  if (!scope.world) return JoinFirst();
  if (!scope.world->HasJoined(caller.rank)) {
    if (scope.world->returning()) return JoinFirst();
    // It came back too late.
    if (scope.world->over() != nullptr) return StatusOf(*scope.world->over());
  }
  RETURN_IF_ERROR(scope.world->CheckMember(caller.rank, caller.nonce));
  return &scope;
}

void Registry::Exchange(CallId call, const Caller& caller, uint64_t sequence,
                        Contribution contribution, absl::Time deadline, absl::Time now,
                        Actions& actions) {
  const absl::StatusOr<Scope*> scope = FindFor(caller);
  if (!scope.ok()) {
    actions.push_back(Answer{call, scope.status()});
    return;
  }
  const bool returning = (*scope)->world->returning();
  (*scope)->world->SetRoom(returning ? held_.Free() : held_.RoomFor(JobOf(caller.scope)));
  (*scope)->world->Exchange(call, caller.rank, caller.nonce, sequence, std::move(contribution),
                            deadline, now, actions);
  CountHeld(caller.scope, **scope);
  EndIfOver(**scope, now, actions);
}

void Registry::CountHeld(std::string_view name, Scope& scope) {
  held_.Give(JobOf(name), scope.held);
  scope.held = scope.world ? scope.world->held() : 0;
  held_.Take(JobOf(name), scope.held);
}

void Registry::AgreeStep(CallId call, const Caller& caller, int64_t step, absl::Time deadline,
                         absl::Time now, Actions& actions) {
  const absl::StatusOr<Scope*> scope = FindFor(caller);
  if (!scope.ok()) {
    actions.push_back(AnswerStep{call, scope.status()});
    return;
  }
  (*scope)->steps.Call(call, caller.rank, step, deadline, actions);
  SettleSteps(**scope, now, actions);
}

void Registry::OnCallGone(const std::string& name, CallId call) {
  const auto at = scopes_.find(name);
  if (at == scopes_.end()) return;
  if (at->second.world) at->second.world->OnCallGone(call);
  at->second.steps.OnCallGone(call);
}

absl::Status Registry::Leave(const Caller& caller, absl::Time now, Actions& actions) {
  ASSIGN_OR_RETURN(Scope* const scope, FindFor(caller));
  const std::optional<SessionId> session = OpenSession(*scope, caller.rank);
  scope->world->Leave(caller.rank, actions);
  CountHeld(caller.scope, *scope);
  SettleSteps(*scope, now, actions);
  // Of a world that was over the session has ended already.
  if (session && sessions_.contains(*session)) {
    actions.push_back(EndSession{*session, absl::OkStatus()});
  }
  EndIfOver(*scope, now, actions);
  return absl::OkStatus();
}

absl::Status Registry::Preempt(const std::string& name, int64_t epoch,
                               const v1::WorldEvent::Preempt& preempt, absl::Time now,
                               Actions& actions) {
  RETURN_IF_ERROR(CheckMayPreempt(name, epoch, now));
  Scope& scope = scopes_.at(name);
  v1::WorldEvent::Preempt merged =
      Merged(scope.preempt.value_or(v1::WorldEvent::Preempt()), preempt);
  const bool news =
      !scope.preempt || merged.SerializeAsString() != scope.preempt->SerializeAsString();
  if (!news) return absl::OkStatus();
  if (!scope.preempt) scope.preempted = now;
  scope.preempt = std::move(merged);
  SendPreempt(scope, actions);
  return absl::OkStatus();
}

absl::Status Registry::CheckMayPreempt(const std::string& name, int64_t epoch,
                                       absl::Time now) const {
  const auto at = scopes_.find(name);
  if (at == scopes_.end() || at->second.epoch == 0) {
    return MakeError(absl::StatusCode::kNotFound, absl::StrCat(name, " has had no world"),
                     {.reason = "WORLD_NOT_FOUND", .metadata = {{"scope", name}}});
  }
  const Scope& scope = at->second;
  if (epoch != 0 && epoch != scope.epoch) return StaleEpoch(name, epoch, scope.epoch);
  if (!scope.world && now < return_until_) return JoinFirst();
  return CheckMayBeAskedToLeave(name, scope);
}

void Registry::SendPreempt(const Scope& scope, Actions& actions) {
  for (int rank = 0; rank < scope.size; ++rank) {
    const std::optional<SessionId> session = OpenSession(scope, rank);
    if (session) actions.push_back(Send{*session, PreemptEvent(*scope.preempt)});
  }
}

void Registry::SettleSteps(Scope& scope, absl::Time now, Actions& actions) {
  scope.steps.Settle(*scope.world, scope.preempt.value_or(v1::WorldEvent::Preempt()), now, actions);
}

// No world forms beside one that lives, or whose members may not have come back yet.
bool Registry::MayForm(const Scope& scope, absl::Time now) const {
  return !Lives(scope) && !scope.saving && now >= BlockedUntil(scope);
}

absl::Time Registry::BlockedUntil(const Scope& scope) const {
  const bool may_return = !scope.world && scope.epoch != 0;
  return may_return ? return_until_ : absl::InfinitePast();
}

// Begins to write the epoch of the scope's next world, if one can form.
void Registry::TryForm(const std::string& name, Scope& scope, absl::Time now, Actions& actions) {
  if (!MayForm(scope, now)) return;
  for (auto& [attempt, forming] : scope.forming) {
    std::vector<Candidate> members = forming.TakeWorld(now);
    if (members.empty()) continue;
    const int size = static_cast<int>(members.size());
    scope.saving = Saving{attempt, ++last_epoch_, std::move(members)};
    actions.push_back(SaveEpoch{name, last_epoch_, size});
    break;
  }
  std::erase_if(scope.forming, [](const auto& each) { return each.second.empty(); });
}

void Registry::OnSaved(const std::string& name, const absl::Status& status, absl::Time now,
                       Actions& actions) {
  Scope& scope = scopes_.at(name);
  const Saving saved = *std::exchange(scope.saving, std::nullopt);
  if (!status.ok()) {
    for (const Candidate& each : saved.members) {
      if (each.session != 0) actions.push_back(EndSession{each.session, status});
      DropSession(each.session);
    }
    if (scope.epoch == 0 && HasNoProcess(scope)) DropScope(name);
    return;
  }
  StartWorld(scope, saved, now);
  scope.world->SetMessageMax(message_max_);
  CountHeld(name, scope);
  actions.push_back(RaiseEpoch{name, scope.epoch});
  const std::shared_ptr<const FormedWorld> formed = FormedOf(scope, /*with_members=*/true);
  for (int rank = 0; rank < scope.size; ++rank) {
    const SessionId session = saved.members[rank].session;
    if (session != 0) actions.push_back(SendFormed{session, formed, rank});
  }
  RefuseTaken(scope, actions);
}

// Tells processes that still wait whose rank is taken now.
void Registry::RefuseTaken(Scope& scope, Actions& actions) {
  for (auto& [attempt, forming] : scope.forming) {
    std::vector<SessionId> refused;
    for (const auto& [order, each] : forming.waiting()) {
      absl::Status taken = CheckNotTaken(scope, each);
      if (taken.ok()) continue;
      actions.push_back(EndSession{each.session, std::move(taken)});
      refused.push_back(each.session);
    }
    for (const SessionId session : refused) {
      forming.Remove(session);
      DropSession(session);
    }
  }
  std::erase_if(scope.forming, [](const auto& each) { return each.second.empty(); });
}

// Tells the members once that their world is over, and ends their sessions.
void Registry::EndIfOver(Scope& scope, absl::Time now, Actions& actions) {
  const Outcome* const over = scope.world->over();
  if (over == nullptr || scope.told_over) return;
  scope.told_over = true;
  scope.since = now;
  SettleSteps(scope, now, actions);
  const std::optional<int> lost = scope.world->lost();
  const int next_size = scope.preempt ? scope.preempt->next_size() : 0;
  for (int rank = 0; rank < scope.size; ++rank) {
    const std::optional<SessionId> session = OpenSession(scope, rank);
    if (!session) continue;
    if (lost) {
      actions.push_back(Send{*session, LostEvent(*lost, scope.members[*lost].host, over->message)});
    }
    actions.push_back(Send{*session, OverEvent(over->message, next_size)});
    actions.push_back(EndSession{*session, absl::OkStatus()});
    DropSession(*session);
  }
}

void Registry::OnTime(absl::Time now, Actions& actions) {
  std::vector<std::string> forgotten;
  for (auto& [name, scope] : scopes_) {
    if (scope.world) {
      scope.world->OnTime(now, actions);
      SettleSteps(scope, now, actions);
      EndIfOver(scope, now, actions);
      const bool over = scope.world->over() != nullptr;
      if (over && now >= scope.since + kAskAgainTime) scope.world->ForgetRounds();
      CountHeld(name, scope);
    }
    for (auto& [attempt, forming] : scope.forming) {
      if (now < forming.LateTime()) continue;
      const absl::Status status = TimedOut(forming);
      for (const Candidate& late : forming.TakeLate(now)) {
        actions.push_back(EndSession{late.session, status});
        DropSession(late.session);
      }
    }
    std::erase_if(scope.forming, [](const auto& each) { return each.second.empty(); });
    TryForm(name, scope, now, actions);
    if (!HasNoProcess(scope)) continue;
    if (scope.epoch == 0 || now >= scope.since + kForgetAfter) forgotten.push_back(name);
  }
  for (const std::string& name : forgotten) {
    if (scopes_.at(name).epoch != 0) actions.push_back(ForgetScope{name, last_epoch_});
    DropScope(name);
  }
}

absl::Time Registry::NextTime() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [name, scope] : scopes_) {
    if (scope.world) next = std::min({next, scope.world->NextTime(), scope.steps.NextTime()});
    if (scope.held > 0 && scope.told_over) next = std::min(next, scope.since + kAskAgainTime);
    for (const auto& [attempt, forming] : scope.forming) {
      next = std::min(next, forming.LateTime());
      if (MayForm(scope, absl::InfiniteFuture())) {
        next = std::min(next, std::max(forming.WorldTime(), BlockedUntil(scope)));
      }
    }
    if (HasNoProcess(scope)) next = std::min(next, scope.since + kForgetAfter);
  }
  return next;
}

Registry::Listed Registry::List(std::string_view prefix, std::string_view after,
                                size_t most) const {
  Listed listed;
  size_t bytes = 0;
  for (auto at = after < prefix ? scopes_.lower_bound(prefix) : scopes_.upper_bound(after);
       at != scopes_.end() && at->first.starts_with(prefix); ++at) {
    if (listed.worlds.size() == most || bytes >= kListBytesMax) {
      listed.more = true;
      break;
    }
    listed.worlds.push_back(Describe(at->first, at->second));
    bytes += listed.worlds.back().ByteSizeLong();
  }
  return listed;
}

WorldFigures Registry::figures(absl::Time now) const {
  WorldFigures figures;
  figures.members = static_cast<int64_t>(sessions_.size());
  for (const auto& [name, scope] : scopes_) {
    ++figures.worlds[PhaseOf(scope)];
    if (!scope.world) continue;
    const absl::Time since = scope.world->OldestWaiting();
    figures.oldest_round = std::max(figures.oldest_round, now - std::min(since, now));
  }
  return figures;
}

}  // namespace remesh::server::coordination
