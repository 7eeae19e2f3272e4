// SPDX-License-Identifier: Apache-2.0
// What the processes of WorldsSimulation do in their worlds. See server_group.py.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/coordination/testing/worlds_simulation.h"

namespace remesh::server::coordination {
namespace {

constexpr absl::Duration kLongestTimeout = absl::Seconds(15);
constexpr absl::Duration kAgainTime = absl::Milliseconds(100);

// Whether the server asks for the same call again.
bool AsksAgain(const std::string& reason) {
  return reason == "JOIN_AGAIN" || reason == "CALLED_AGAIN";
}

std::string TextOf(const std::vector<absl::Cord>& payloads) {
  std::string text;
  for (const absl::Cord& each : payloads) absl::StrAppend(&text, std::string(each), ";");
  return text;
}

}  // namespace

std::string ReasonOf(const absl::Status& status) {
  const std::string reason = GetErrorInfo(status).reason;
  return reason.empty() ? absl::StatusCodeToString(status.code()) : reason;
}

Caller WorldsSimulation::CallerOf(const Process& process) const {
  return {.scope = process.job->scope,
          .epoch = process.epoch,
          .rank = process.rank,
          .nonce = process.nonce};
}

// What the process does next in its world.
void WorldsSimulation::Step(Process& process) {
  const bool lags = Fault(0.03);
  const absl::Duration thinks =
      schedule_.Between(absl::ZeroDuration(), lags ? absl::Seconds(20) : absl::Milliseconds(100));
  OnProcess(process, thinks, [this, &process, nonce = process.nonce] {
    if (process.nonce != nonce || process.over) return;
    if (schedule_.Chance(0.3)) Write(process);
    const uint64_t rounds = 3 + Mixed(seed_, process.epoch) % 40;
    if (process.sequence >= rounds || LeavesEarly(process)) return Leave(process);
    const bool agrees = process.sequence == rounds / 2 && !process.has_agreed;
    process.waits = agrees ? Process::Waits::kStep : Process::Waits::kRound;
    process.step = static_cast<int64_t>(schedule_.Below(100));
    process.since = schedule_.now();
    process.give_up = schedule_.now() + schedule_.Between(absl::Seconds(2), kLongestTimeout);
    SendCall(process);
  });
}

// A few processes leave while the others still need them.
bool WorldsSimulation::LeavesEarly(const Process& process) const {
  return Mixed(process.id, process.sequence + 1000) % 500 == 0;
}

// The call, or the same again.
void WorldsSimulation::SendCall(Process& process) {
  process.call = next_id_++;
  process.asked = process.reports;
  const absl::Duration timeout = std::max(process.give_up - schedule_.now(), absl::Milliseconds(1));
  if (process.waits == Process::Waits::kStep) return SendStep(process, timeout);
  ToServer(process, [this, &process, call = process.call, caller = CallerOf(process), timeout,
                     sequence = process.sequence,
                     contribution = ContributionOf(process, process.sequence)](Actions& actions) {
    const absl::Time now = schedule_.now();
    server_.AddCall(call, process);
    server_.SetDeadline(call, now + timeout);
    server_.registry().Exchange(call, caller, sequence, contribution, now + timeout, now, actions);
  });
}

void WorldsSimulation::SendStep(Process& process, absl::Duration timeout) {
  ToServer(process, [this, &process, call = process.call, caller = CallerOf(process),
                     step = process.step, timeout](Actions& actions) {
    const absl::Time now = schedule_.now();
    server_.AddCall(call, process);
    server_.registry().AgreeStep(call, caller, step, now + timeout, now, actions);
  });
}

// The server has asked for it. OnFormed() may send it, too.
void WorldsSimulation::SendCallAgain(Process& process) {
  if (!process.in) return;
  OnProcess(process, kAgainTime, [this, &process, call = process.call] {
    if (process.call == call && process.in) SendCall(process);
  });
}

// The same however often it is asked; a few members are at other calls, or have other values.
Contribution WorldsSimulation::ContributionOf(const Process& process, uint64_t sequence) const {
  const uint64_t chance = Mixed(process.id, sequence);
  const std::string again = broken_.other_payloads ? absl::StrCat(" ", server_.life()) : "";
  Contribution contribution;
  contribution.name = absl::StrCat("round ", sequence, chance % 50 == 0 ? " of another" : "");
  contribution.mode = static_cast<Mode>(sequence % 4);
  if (contribution.mode == Mode::kAgree) {
    const char value = chance % 50 == 1 ? 'b' : 'a';
    contribution.payload = absl::Cord(std::string(kDigestBytes, 's') + std::string(16, value));
  } else if (contribution.mode == Mode::kBroadcast) {
    contribution.root = static_cast<int>(sequence % process.size);
    const bool sends = contribution.root == process.rank;
    if (sends) contribution.payload = absl::Cord(process.nonce + again);
  } else if (contribution.mode == Mode::kGather) {
    contribution.root = static_cast<int>(sequence / 4 % (process.size + 1)) - 1;
    contribution.payload = absl::Cord(absl::StrCat(process.nonce, " in ", sequence, again));
  }
  return contribution;
}

// What the process reports of its rounds when it joins again.
std::vector<Finished> WorldsSimulation::ReportOf(const Process& process) const {
  std::vector<Finished> report = process.finished;
  if (broken_.last_round_only && report.size() > 1) report = {report.back()};
  for (Finished& each : report) {
    if (broken_.no_digests) each.digest.clear();
    if (broken_.other_payloads && each.outcome.ending == Ending::kOk) {
      each.contribution = ContributionOf(process, each.sequence);
    }
  }
  return report;
}

void WorldsSimulation::OnResult(Process& process, uint64_t sequence, const Answer& answer) {
  if (const auto* refused = std::get_if<absl::Status>(&answer.with)) {
    return OnRefused(process, sequence, *refused);
  }
  // It has reported that it lacks this outcome, and others count on that: it asks again.
  if (process.asked != process.reports) {
    if (process.in) SendCall(process);
    return;
  }
  const Outcome& outcome = *std::get<SharedOutcome>(answer.with);
  const std::string ending = NameOf(outcome.ending);
  const bool ok = outcome.ending == Ending::kOk;
  const std::string& what = ok ? answer.digest : outcome.message;
  Record(process, sequence, {ending, what, TextOf(outcome.payloads)});
  process.waits = Process::Waits::kNothing;
  process.call = 0;
  process.over = process.over || EndsWorld(ending);
  if (!EndsWorld(ending)) Keep(process, sequence, answer.digest, outcome);
  if (process.over) return AfterWorld(process);
  Step(process);
}

// What it tells of this round when it joins again.
void WorldsSimulation::Keep(Process& process, uint64_t sequence, const std::string& digest,
                            const Outcome& outcome) {
  const bool ok = outcome.ending == Ending::kOk;
  if (ok) process.finished.clear();
  Finished& finished = process.finished.emplace_back();
  finished.sequence = sequence;
  finished.outcome = outcome;
  finished.outcome.payloads.clear();
  finished.outcome.to = -1;
  finished.digest = digest;
  if (ok) finished.contribution = ContributionOf(process, sequence);
  ++process.sequence;
  if (ok) process.job->last_ok = schedule_.now();
}

void WorldsSimulation::OnRefused(Process& process, uint64_t sequence, const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (AsksAgain(reason)) return SendCallAgain(process);
  if (reason != "STALE_EPOCH" && !EndsWorld(reason)) {
    return history_.Violate(absl::StrCat("an honest call is refused: ", status.ToString()));
  }
  Record(process, sequence, {"OVER", "", ""});
  process.over = true;
  AfterWorld(process);
}

void WorldsSimulation::OnStep(Process& process, const absl::StatusOr<AgreedStep>& step) {
  const std::string reason = step.ok() ? "OK" : ReasonOf(step.status());
  if (AsksAgain(reason)) return SendCallAgain(process);
  if (process.asked != process.reports) {
    if (process.in) SendCall(process);
    return;
  }
  history_.Count(absl::StrCat("steps ", reason));
  process.waits = Process::Waits::kNothing;
  process.call = 0;
  process.has_agreed = true;
  if (step.ok()) {
    history_.OnStepAgreed(process.job->scope, process.epoch, step->step, process.step);
    process.agreed = step->step;
  }
  const bool over = EndsWorld(reason) || reason == "STALE_EPOCH";
  process.over = process.over || over;
  if (process.over) return AfterWorld(process);
  Step(process);
}

void WorldsSimulation::Record(Process& process, uint64_t sequence, WorldsHistory::Result result) {
  const bool differ = result.ending == "RESULTS_DIFFER";
  if (differ && !broken_.other_payloads) history_.Violate("results of honest members differ");
  history_.OnResult(process.job->scope, process.epoch, sequence, process.rank, std::move(result));
}

// Leaves, and ends.
void WorldsSimulation::Leave(Process& process) {
  history_.Count("leaves");
  ToServer(process, [this, caller = CallerOf(process)](Actions& actions) {
    (void)server_.registry().Leave(caller, schedule_.now(), actions);
  });
  OnProcess(process, schedule_.Between(absl::Milliseconds(20), absl::Milliseconds(200)),
            [this, &process] { Die(process); });
}

// A change of a state, which takes effect when its turn comes.
void WorldsSimulation::Write(Process& process) {
  const absl::Duration waits = schedule_.Chance(0.1) ? absl::Seconds(5) : absl::Milliseconds(30);
  After(schedule_.Between(absl::ZeroDuration(), waits),
        [this, scope = process.job->scope, epoch = process.epoch] {
          if (!server_.runs()) return;
          history_.OnWrite(scope, epoch, server_.fences().CheckFence(scope, epoch).ok());
        });
}

}  // namespace remesh::server::coordination
