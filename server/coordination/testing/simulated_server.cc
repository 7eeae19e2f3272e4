// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/testing/simulated_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace remesh::server::coordination {

// Reaches into the machine to break its rules.
class RegistryTestPeer {
 public:
  static void EndReturn(Registry& registry, const std::string& scope) {
    const auto at = registry.scopes_.find(scope);
    if (at == registry.scopes_.end() || !at->second.world) return;
    at->second.world->return_deadline_ = absl::InfiniteFuture();
  }
  static void ForgetLoss(Registry& registry) {
    for (auto& [name, scope] : registry.scopes_) {
      if (!scope.world) continue;
      for (auto& seat : scope.world->members_) seat.lost_at = absl::InfiniteFuture();
    }
  }
};

SimulatedServer::SimulatedServer(BrokenRules broken, Schedule& schedule, WorldsHistory& history,
                                 Callbacks callbacks)
    : broken_(broken), schedule_(schedule), history_(history), callbacks_(std::move(callbacks)) {}

void SimulatedServer::Start() {
  ++life_;
  registry_ = std::make_unique<Registry>(disk_.last_epoch, disk_.worlds, schedule_.now());
  fences_ = std::make_unique<Fences>();
  for (const auto& [scope, world] : disk_.worlds) fences_->Set(scope, world.epoch);
}

void SimulatedServer::Crash() {
  ++life_;
  registry_.reset();
  fences_.reset();
  sessions_.clear();
  calls_.clear();
  deadlines_.clear();
  epoch_of_.clear();
}

void SimulatedServer::ReturnToKeptDisk() {
  disk_ = kept_;
  if (broken_.no_leap) return;
  disk_ = {.last_epoch = EpochBeyond(disk_.last_epoch, schedule_.now())};
}

void SimulatedServer::EndReturn(const std::string& scope) {
  RegistryTestPeer::EndReturn(*registry_, scope);
}

void SimulatedServer::Do(const std::function<void(Actions&)>& call) {
  if (!runs()) return;
  Actions actions;
  call(actions);
  if (broken_.forgets_loss) RegistryTestPeer::ForgetLoss(*registry_);
  Perform(actions);
}

absl::Time SimulatedServer::NextTick() const {
  if (!runs()) return absl::InfiniteFuture();
  const absl::Time next = std::max(registry_->NextTime(), schedule_.now() + absl::Nanoseconds(1));
  if (next == absl::InfiniteFuture()) return next;
  return absl::UnixEpoch() + absl::Ceil(next - absl::UnixEpoch(), kSimulatedTick);
}

void SimulatedServer::OnTick() {
  Do([this](Actions& actions) { registry_->OnTime(schedule_.now(), actions); });
  CheckDeadlines();
}

void SimulatedServer::CheckDeadlines() {
  const absl::Time now = schedule_.now();
  for (const auto& [call, deadline] : deadlines_) {
    if (now <= deadline + kSimulatedTick || !calls_.contains(call)) continue;
    const std::string& scope = calls_.at(call)->job->scope;
    const auto listed = registry_->List(scope, "", 1).worlds;
    if (!listed.empty() && listed[0].phase() == v1::World::RETURNING) continue;
    history_.Violate(absl::StrCat("a call waits ", absl::FormatDuration(now - deadline),
                                  " beyond its deadline"));
  }
}

void SimulatedServer::OnCut(SessionId session, CallId call, const std::string& scope) {
  Do([&](Actions& actions) {
    if (calls_.erase(call) > 0) registry_->OnCallGone(scope, call);
    deadlines_.erase(call);
    sessions_.erase(session);
    registry_->OnSessionEnd(session, schedule_.now(), actions);
  });
}

void SimulatedServer::EndOtherStreams(const SimulatedProcess& process) {
  std::vector<SessionId> ended;
  for (const auto& [session, each] : sessions_) {
    if (each == &process && session != process.session) ended.push_back(session);
  }
  for (const SessionId session : ended) {
    sessions_.erase(session);
    EndSession(session);
  }
}

void SimulatedServer::EndSession(SessionId session) {
  Do([&](Actions& actions) { registry_->OnSessionEnd(session, schedule_.now(), actions); });
}

void SimulatedServer::Perform(const Actions& actions) {
  for (const Action& action : actions) Take(action);
}

void SimulatedServer::Take(const Action& action) {
  if (const auto* answer = std::get_if<Answer>(&action)) {
    deadlines_.erase(answer->call);
    TakeCall(answer->call, action);
  } else if (const auto* step = std::get_if<AnswerStep>(&action)) {
    TakeCall(step->call, action);
  } else if (const auto* formed = std::get_if<SendFormed>(&action)) {
    TakeFormed(*formed);
    SendTo(formed->session, action);
  } else if (const auto* send = std::get_if<Send>(&action)) {
    if (send->event.has_over()) SendTo(send->session, action);
  } else if (const auto* end = std::get_if<coordination::EndSession>(&action)) {
    TakeEnd(*end);
  } else if (const auto* save = std::get_if<SaveEpoch>(&action)) {
    Save(*save);
  } else if (const auto* forget = std::get_if<ForgetScope>(&action)) {
    fences_->Forget(forget->scope);
    disk_.worlds.erase(forget->scope);
  } else if (const auto* raised = std::get_if<RaiseEpoch>(&action)) {
    TakeRaised(*raised);
  } else if (const auto* ended = std::get_if<RoundEnded>(&action)) {
    history_.Count(absl::StrCat("rounds ", NameOf(ended->ending)));
  }
}

void SimulatedServer::SendTo(SessionId session, const Action& action) {
  const auto at = sessions_.find(session);
  if (at != sessions_.end()) callbacks_.send(*at->second, action);
}

void SimulatedServer::TakeCall(CallId call, const Action& action) {
  const auto at = calls_.extract(call);
  if (!at.empty()) callbacks_.send(*at.mapped(), action);
}

// The server notices later that the stream has ended.
void SimulatedServer::TakeEnd(const coordination::EndSession& end) {
  const auto session = sessions_.extract(end.session);
  if (session.empty()) return;
  callbacks_.send(*session.mapped(), end);
  schedule_.After(callbacks_.delay(), [this, id = end.session, life = life_] {
    if (life_ == life) EndSession(id);
  });
}

void SimulatedServer::TakeFormed(const SendFormed& formed) {
  const auto at = sessions_.find(formed.session);
  if (at == sessions_.end()) return;
  history_.OnFormed(at->second->job->scope, formed.world->epoch);
  epoch_of_[formed.session] = formed.world->epoch;
}

// No member of an earlier world is there any more.
void SimulatedServer::TakeRaised(const RaiseEpoch& raised) {
  history_.OnRaised(raised.scope, raised.epoch);
  for (const auto& [session, process] : sessions_) {
    const auto epoch = epoch_of_.find(session);
    if (process->job->scope != raised.scope || epoch == epoch_of_.end()) continue;
    history_.Violate(absl::StrCat("a living member of epoch ", epoch->second, " is displaced"));
  }
  if (!broken_.raises_late) return fences_->Set(raised.scope, raised.epoch);
  schedule_.After(absl::Seconds(2), [this, raised, life = life_] {
    if (life_ == life) fences_->Set(raised.scope, raised.epoch);
  });
}

// The disk writes in order: a save that the server waited for when it died may be there or not.
void SimulatedServer::Save(const SaveEpoch& save) {
  const bool quiet = callbacks_.quiet();
  const bool fails = !quiet && schedule_.Chance(0.02);
  const absl::Duration takes = !quiet && schedule_.Chance(0.1)
                                   ? schedule_.Between(absl::ZeroDuration(), absl::Seconds(1))
                                   : kSimulatedTick;
  disk_free_ = std::max(disk_free_, schedule_.now()) + takes;
  const auto answer = [this, save](const absl::Status& status) {
    Do([&](Actions& actions) { registry_->OnSaved(save.scope, status, schedule_.now(), actions); });
  };
  const bool survives = schedule_.Chance(0.5);
  schedule_.At(disk_free_, [this, save, fails, answer, life = life_, survives] {
    if (life_ != life && !survives) return;
    if (!fails) {
      disk_.last_epoch = std::max(disk_.last_epoch, save.epoch);
      disk_.worlds[save.scope] = {
          .epoch = save.epoch, .size = save.size, .formed = schedule_.now()};
    }
    if (life_ != life || broken_.formed_before_disk) return;
    answer(fails ? absl::UnavailableError("disk") : absl::OkStatus());
  });
  if (broken_.formed_before_disk) answer(absl::OkStatus());
}

}  // namespace remesh::server::coordination
