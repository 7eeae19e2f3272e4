// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/coordinator.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/caller_gone.h"
#include "base/error.h"
#include "server/coordination/requests.h"

namespace remesh::server::coordination {
namespace {

// How late a deadline may be noticed, while there are members and while there are none.
constexpr absl::Duration kTick = absl::Milliseconds(10);
constexpr absl::Duration kFiguresTime = absl::Seconds(1);
constexpr absl::Duration kIdleTick = absl::Milliseconds(200);
// A tick that is later than twice this was held up with the whole process.
constexpr auto kPauseInterval = std::chrono::milliseconds(250);

absl::Status Stopping() {
  return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                   {.reason = "SHUTTING_DOWN", .metadata = {}});
}

}  // namespace

Coordinator::Coordinator(int64_t last_epoch, const std::map<std::string, KnownEpoch>& known,
                         size_t message_max, Callbacks callbacks, Fences& fences)
    : callbacks_(std::move(callbacks)),
      fences_(fences),
      start_(SteadyClock().Now()),
      start_wall_(absl::Now()),
      pause_(kPauseInterval),
      registry_(last_epoch, known, start_wall_, message_max),
      keep_alive_at_(start_wall_),
      figures_at_(start_wall_) {
  for (const auto& [scope, each] : known) fences_.Set(scope, each.epoch);
  pause_.Start(start_);
  queue_.Post([this] { Tick(); });
}

template <typename Task>
bool Coordinator::Post(Task task) {
  return queue_.Post(std::move(task));
}

// Does not advance while the process is stopped.
absl::Time Coordinator::Now() {
  const Timestamp steady = pause_.Between(SteadyClock().Now());
  return start_wall_ + absl::FromChrono(steady - start_ - paused_);
}

void Coordinator::Tick() {
  paused_ += pause_.OnTick(SteadyClock().Now());
  const absl::Time now = Now();
  Actions actions;
  registry_.OnTime(now, actions);
  Perform(std::move(actions));
  SendKeepAlives(now);
  if (now >= figures_at_) {
    figures_at_ = now + kFiguresTime;
    callbacks_.figures(registry_.figures(now));
  }
  queue_.PostAfter(sessions_.empty() ? kIdleTick : kTick, [this] { Tick(); });
}

void Coordinator::SendKeepAlives(absl::Time now) {
  if (now < keep_alive_at_) return;
  keep_alive_at_ = now + kKeepAliveTime / 4;
  v1::WorldEvent event;
  event.mutable_keep_alive();
  for (auto& [id, session] : sessions_) {
    if (now < session.last_sent + kKeepAliveTime) continue;
    session.last_sent = now;
    session.sink->Send(event);
  }
}

void Coordinator::Join(SessionId session, v1::JoinRequest request,
                       std::shared_ptr<MemberSink> sink) {
  const bool posted = Post([this, session, sink, request = std::move(request)]() mutable {
    if (shut_down_) return sink->End(Stopping());
    const absl::Time now = Now();
    sessions_[session] = {sink, now};
    Actions actions;
    const absl::Status status = coordination::Join(registry_, session, request, now, actions);
    if (!status.ok()) actions.push_back(EndSession{session, status});
    Perform(std::move(actions));
  });
  if (!posted) sink->End(Stopping());
}

void Coordinator::OnStreamEnd(SessionId session) {
  Post([this, session] {
    sessions_.erase(session);
    Actions actions;
    registry_.OnSessionEnd(session, Now(), actions);
    Perform(std::move(actions));
  });
}

void Coordinator::Exchange(CallId call, Caller caller, uint64_t sequence, Contribution contribution,
                           absl::Duration timeout, ExchangeFn reply) {
  Post([this, call, caller = std::move(caller), sequence, timeout, reply = std::move(reply),
        contribution = std::move(contribution)]() mutable {
    if (shut_down_) return reply(Stopping());
    calls_[call] = Call{caller.scope, std::move(reply)};
    const absl::Time now = Now();
    Actions actions;
    registry_.Exchange(call, caller, sequence, std::move(contribution), now + timeout, now,
                       actions);
    Perform(std::move(actions));
  });
}

void Coordinator::AgreeStep(CallId call, Caller caller, int64_t step, absl::Duration timeout,
                            StepFn reply) {
  Post([this, call, caller = std::move(caller), step, timeout, reply = std::move(reply)]() mutable {
    if (shut_down_) return reply(Stopping());
    calls_[call] = Call{caller.scope, std::move(reply)};
    const absl::Time now = Now();
    Actions actions;
    registry_.AgreeStep(call, caller, step, now + timeout, now, actions);
    Perform(std::move(actions));
  });
}

void Coordinator::EndCall(CallId call) {
  Post([this, call] {
    auto at = calls_.extract(call);
    if (at.empty()) return;
    registry_.OnCallGone(at.mapped().scope, call);
    std::visit([](auto& reply) { reply(CallerGone()); }, at.mapped().reply);
  });
}

void Coordinator::Leave(Caller caller, StatusFn reply) {
  Post([this, caller = std::move(caller), reply = std::move(reply)]() mutable {
    if (shut_down_) return reply(Stopping());
    Actions actions;
    const absl::Status status = registry_.Leave(caller, Now(), actions);
    reply(status);
    Perform(std::move(actions));
  });
}

void Coordinator::Preempt(std::string scope, int64_t epoch, v1::WorldEvent::Preempt preempt,
                          StatusFn reply) {
  Post([this, scope = std::move(scope), epoch, preempt = std::move(preempt),
        reply = std::move(reply)]() mutable {
    if (shut_down_) return reply(Stopping());
    Actions actions;
    const absl::Status status = registry_.Preempt(scope, epoch, preempt, Now(), actions);
    Perform(std::move(actions));
    reply(status);
  });
}

void Coordinator::List(std::string prefix, std::string after, size_t most, ListFn reply) {
  Post([this, prefix = std::move(prefix), after = std::move(after), most,
        reply = std::move(reply)]() mutable {
    if (shut_down_) return reply(Stopping());
    reply(registry_.List(prefix, after, most));
  });
}

void Coordinator::Shutdown() {
  absl::Notification done;
  const bool posted = Post([this, &done] {
    shut_down_ = true;
    for (auto& [id, session] : std::exchange(sessions_, {})) session.sink->End(Stopping());
    for (auto& [id, call] : std::exchange(calls_, {})) {
      std::visit([](auto& reply) { reply(Stopping()); }, call.reply);
    }
    done.Notify();
  });
  if (posted) done.WaitForNotification();
}

void Coordinator::Perform(Actions actions) {
  for (Action& action : actions) {
    std::visit([this](auto& what) { Do(what); }, action);
  }
}

void Coordinator::Do(Answer& action) {
  auto call = calls_.extract(action.call);
  if (call.empty()) return;
  ExchangeFn& reply = std::get<ExchangeFn>(call.mapped().reply);
  if (const auto* refused = std::get_if<absl::Status>(&action.with)) return reply(*refused);
  const absl::Status status = StatusOf(*std::get<SharedOutcome>(action.with));
  if (!status.ok()) return reply(status);
  reply(std::move(action));
}

void Coordinator::Do(AnswerStep& action) {
  auto call = calls_.extract(action.call);
  if (!call.empty()) std::get<StepFn>(call.mapped().reply)(std::move(action.agreed));
}

MemberSink* Coordinator::SinkOf(SessionId session) {
  const auto at = sessions_.find(session);
  if (at == sessions_.end()) return nullptr;
  at->second.last_sent = Now();
  return at->second.sink.get();
}

void Coordinator::Do(EndSession& action) {
  auto session = sessions_.extract(action.session);
  if (!session.empty()) session.mapped().sink->End(action.status);
}

void Coordinator::Do(SendFormed& action) {
  MemberSink* const sink = SinkOf(action.session);
  if (sink != nullptr) sink->SendFormed(std::move(action.world), action.rank);
}

void Coordinator::Do(coordination::Send& action) {
  MemberSink* const sink = SinkOf(action.session);
  if (sink != nullptr) sink->Send(std::move(action.event));
}

void Coordinator::Do(SaveEpoch& action) {
  const KnownEpoch present{.epoch = action.epoch, .size = action.size, .formed = Now()};
  callbacks_.save(action.scope, present, action.epoch,
                  [this, scope = action.scope](absl::Status status) {
                    Post([this, scope, status = std::move(status)] {
                      Actions actions;
                      registry_.OnSaved(scope, status, Now(), actions);
                      Perform(std::move(actions));
                    });
                  });
}

void Coordinator::Do(ForgetScope& action) {
  fences_.Forget(action.scope);
  // If it is not written, the scope is forgotten later: it is known again after the next start.
  callbacks_.save(action.scope, std::nullopt, action.last_epoch, [](const absl::Status&) {});
}

void Coordinator::Do(RaiseEpoch& action) { fences_.Set(action.scope, action.epoch); }

void Coordinator::Do(RoundEnded& action) {
  const bool known = action.since != absl::InfinitePast();
  callbacks_.round_ended(action.ending, known ? Now() - action.since : absl::ZeroDuration());
}

}  // namespace remesh::server::coordination
