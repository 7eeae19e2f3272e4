// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/worlds_world.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "server/controller/values/names.h"
#include "server/controller/values/pagination.h"
#include "server/coordination/messages.h"
#include "server/coordination/requests.h"
#include "tests/fuzz/target.h"

namespace remesh::fuzz {

using namespace server::coordination;

namespace {

void CheckIfRefused(const absl::Status& status) {
  if (!status.ok()) CheckRefusal(status);
}

absl::Status DiskFailed() {
  return MakeError(absl::StatusCode::kUnavailable, "the disk failed",
                   {.reason = "DISK_FAILED", .metadata = {}});
}

}  // namespace

void WorldsWorld::Start() {
  registry_ = std::make_unique<Registry>(last_epoch_, disk_, now_);
  fences_ = std::make_unique<Fences>();
  for (const auto& [scope, known] : disk_) fences_->Set(scope, known.epoch);
  highest_epoch_ = last_epoch_;  // one that is not on disk was told to no member
  saves_.clear();
  ended_.clear();
  streams_.clear();
  open_.clear();
  waiting_.clear();
  results_.clear();
}

void WorldsWorld::Do(const WorldsInput::Step& step) {
  switch (step.what_case()) {
    case WorldsInput::Step::kJoin:
      return Join(step.join());
    case WorldsInput::Step::kHungUp:
      return HangUp(step.hung_up());
    case WorldsInput::Step::kExchange:
      return Exchange(step.exchange());
    case WorldsInput::Step::kAgreeStep:
      return AgreeStep(step.agree_step());
    case WorldsInput::Step::kLeave:
      return Leave(step.leave());
    case WorldsInput::Step::kReportPreemption:
      return Report(step.report_preemption());
    case WorldsInput::Step::kListWorlds:
      return List(step.list_worlds());
    case WorldsInput::Step::kCancelled:
      return Cancel(step.cancelled());
    case WorldsInput::Step::kSaved:
      return Write(step.saved());
    case WorldsInput::Step::kMilliseconds:
      return Pass(absl::Milliseconds(step.milliseconds() % 1'000'000));
    case WorldsInput::Step::kCrash:
      return Start();
    case WorldsInput::Step::kFence:
      return CheckIfRefused(fences_->CheckFence(step.fence().scope(), step.fence().epoch()));
    case WorldsInput::Step::WHAT_NOT_SET:
      return;
  }
}

void WorldsWorld::Finish() {
  Pass(kTimeoutMax);
  while (!saves_.empty()) Write(/*reaches_disk=*/true);
  Pass(kTimeoutMax);
  REMESH_CHECK(waiting_.empty());
  const std::map<uint32_t, SessionId> streams = streams_;
  for (const auto& [stream, session] : streams) HangUp(stream);
  NoticeEnds();
  REMESH_CHECK(registry_->sessions() == 0);
  Pass(kReturnTime + kAskAgainTime);
  Pass(kAskAgainTime);
  REMESH_CHECK(registry_->held() == 0);
  Pass(kForgetAfter);
  REMESH_CHECK(registry_->List("", "", 1).worlds.empty());
  REMESH_CHECK(disk_.empty());
}

void WorldsWorld::Join(const WorldsInput::Step::Join& join) {
  HangUp(join.stream());
  const v1::JoinRequest& request = join.request();
  if (const absl::Status status = CheckScope(request.scope()); !status.ok()) {
    return CheckRefusal(status);
  }
  const SessionId session = ++last_session_;
  streams_[join.stream()] = session;
  open_.insert(session);
  Actions actions;
  absl::Status status = server::coordination::Join(*registry_, session, request, now_, actions);
  if (!status.ok()) actions.push_back(EndSession{session, std::move(status)});
  Perform(std::move(actions));
}

void WorldsWorld::HangUp(uint32_t stream) {
  const auto at = streams_.extract(stream);
  if (!at.empty() && open_.erase(at.mapped()) == 1) End(at.mapped());
}

void WorldsWorld::Exchange(const v1::ExchangeRequest& request) {
  absl::StatusOr<ExchangeCall> call = ExchangeCallOf(request);
  if (!call.ok()) return CheckRefusal(call.status());
  waiting_[++last_call_] = {call->caller.scope, call->caller.epoch, call->sequence};
  Actions actions;
  registry_->Exchange(last_call_, call->caller, call->sequence, std::move(call->contribution),
                      now_ + call->timeout, now_, actions);
  Perform(std::move(actions));
}

void WorldsWorld::AgreeStep(const v1::AgreeStepRequest& request) {
  const absl::StatusOr<StepCall> call = StepCallOf(request);
  if (!call.ok()) return CheckRefusal(call.status());
  waiting_[++last_call_] = {.scope = call->caller.scope};
  Actions actions;
  registry_->AgreeStep(last_call_, call->caller, call->step, now_ + call->timeout, now_, actions);
  Perform(std::move(actions));
}

void WorldsWorld::Leave(const v1::LeaveRequest& request) {
  const absl::StatusOr<Caller> caller = CallerOf(request);
  if (!caller.ok()) return CheckRefusal(caller.status());
  Actions actions;
  CheckIfRefused(registry_->Leave(*caller, now_, actions));
  Perform(std::move(actions));
}

void WorldsWorld::Report(const v1::ReportPreemptionRequest& request) {
  const absl::StatusOr<v1::WorldEvent::Preempt> preempt = PreemptOf(request);
  if (!preempt.ok()) return CheckRefusal(preempt.status());
  Actions actions;
  CheckIfRefused(registry_->Preempt(request.scope(), request.epoch(), *preempt, now_, actions));
  Perform(std::move(actions));
}

void WorldsWorld::List(const v1::ListWorldsRequest& request) {
  const absl::StatusOr<std::string> prefix = server::ParseParent("parent", request.parent());
  if (!prefix.ok()) return CheckRefusal(prefix.status());
  const auto page = server::ParsePage(request.page_size(), request.page_token(), *prefix);
  if (!page.ok()) return CheckRefusal(page.status());
  const Registry::Listed listed =
      registry_->List(*prefix, page->after, static_cast<size_t>(page->size));
  for (const v1::World& world : listed.worlds) {
    REMESH_CHECK(CheckScope(world.name()).ok() && world.name().starts_with(*prefix));
    REMESH_CHECK(world.phase() != v1::World::PHASE_UNSPECIFIED);
    for (const v1::World::Waiting& round : world.waiting()) {
      REMESH_CHECK(round.since().seconds() >= 0 && round.since().nanos() >= 0);
    }
  }
  REMESH_CHECK(registry_->figures(now_).oldest_round < absl::InfiniteDuration());
}

void WorldsWorld::Cancel(CallId call) {
  const auto at = waiting_.extract(call);
  if (!at.empty()) registry_->OnCallGone(at.mapped().scope, call);
}

void WorldsWorld::Write(bool reaches_disk) {
  if (saves_.empty()) return;
  const SaveEpoch save = std::move(saves_.front());
  saves_.pop_front();
  if (reaches_disk) {
    last_epoch_ = std::max(last_epoch_, save.epoch);
    disk_[save.scope] = {.epoch = save.epoch, .size = save.size, .formed = now_};
  }
  Actions actions;
  registry_->OnSaved(save.scope, reaches_disk ? absl::OkStatus() : DiskFailed(), now_, actions);
  Perform(std::move(actions));
}

void WorldsWorld::Pass(absl::Duration time) {
  NoticeEnds();
  now_ += time;
  Actions actions;
  registry_->OnTime(now_, actions);
  Perform(std::move(actions));
}

void WorldsWorld::Perform(Actions actions) {
  for (const Action& action : actions) {
    std::visit([this](const auto& what) { Take(what); }, action);
  }
}

// The server notices that streams which it ended have ended.
void WorldsWorld::NoticeEnds() {
  for (const SessionId session : std::exchange(ended_, {})) End(session);
}

void WorldsWorld::End(SessionId session) {
  Actions actions;
  registry_->OnSessionEnd(session, now_, actions);
  Perform(std::move(actions));
}

void WorldsWorld::Take(const Answer& answer) {
  const auto call = waiting_.extract(answer.call);
  REMESH_CHECK(!call.empty());
  if (const auto* refused = std::get_if<absl::Status>(&answer.with)) return CheckRefusal(*refused);
  const Outcome& outcome = *std::get<SharedOutcome>(answer.with);
  const absl::Status status = StatusOf(outcome);
  if (!status.ok()) return CheckRefusal(status);
  const v1::ExchangeResponse response = ResponseOf(outcome, answer.digest);
  REMESH_CHECK(response.digest().size() == kDigestBytes);
  const Call& asked = call.mapped();
  const auto result =
      results_.try_emplace({asked.scope, asked.epoch, asked.sequence}, response.digest());
  REMESH_CHECK(result.first->second == response.digest());
}

void WorldsWorld::Take(const AnswerStep& answer) {
  REMESH_CHECK(waiting_.erase(answer.call) == 1);
  CheckIfRefused(answer.agreed.status());
}

void WorldsWorld::Take(const EndSession& end) {
  REMESH_CHECK(open_.erase(end.session) == 1);
  CheckIfRefused(end.status);
  ended_.push_back(end.session);
}

void WorldsWorld::Take(const SendFormed& formed) {
  REMESH_CHECK(open_.contains(formed.session));
  REMESH_CHECK(formed.rank >= 0 && formed.rank < formed.world->size);
  v1::WorldEvent event;
  REMESH_CHECK(
      event.ParseFromString(formed.world->EventHead(formed.rank) + formed.world->EventRest()));
  REMESH_CHECK(event.formed().epoch() == formed.world->epoch);
}

void WorldsWorld::Take(const Send& send) { REMESH_CHECK(open_.contains(send.session)); }

void WorldsWorld::Take(const SaveEpoch& save) {
  REMESH_CHECK(save.epoch > highest_epoch_);
  highest_epoch_ = save.epoch;
  saves_.push_back(save);
}

void WorldsWorld::Take(const ForgetScope& forget) {
  fences_->Forget(forget.scope);
  last_epoch_ = std::max(last_epoch_, forget.last_epoch);
  disk_.erase(forget.scope);
}

void WorldsWorld::Take(const RaiseEpoch& raised) { fences_->Set(raised.scope, raised.epoch); }

}  // namespace remesh::fuzz
