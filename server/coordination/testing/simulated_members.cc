// SPDX-License-Identifier: Apache-2.0
// The processes of WorldsSimulation: how they start, join worlds and end. See world_session.py.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordination/testing/worlds_simulation.h"

namespace remesh::server::coordination {
namespace {

constexpr absl::Duration kTakenPatience = absl::Seconds(15);  // of a process whose rank is taken
constexpr absl::Duration kJoinTimeout = absl::Seconds(40);

}  // namespace

void WorldsSimulation::OnProcess(Process& process, absl::Duration delay,
                                 std::function<void()> run) {
  After(delay, [&process, run = std::move(run)] { process.Run(run); });
}

void WorldsSimulation::StartProcess(Job& job, int place) {
  if (place >= job.size || job.at[place] != nullptr) return;
  processes_.push_back(std::make_unique<Process>());
  Process& process = *processes_.back();
  process.id = next_id_++;
  process.job = &job;
  process.place = place;
  process.attempt = job.restarts_all ? job.attempt : 0;
  process.heard = schedule_.now();
  job.at[place] = &process;
  OnProcess(process, schedule_.Between(absl::ZeroDuration(), absl::Seconds(1)),
            [this, &process] { JoinWorld(process); });
}

// A new ServerGroup of the process.
void WorldsSimulation::JoinWorld(Process& process) {
  process.nonce = absl::StrCat("nonce ", next_id_++);
  process.epoch = 0;
  process.in = false;
  process.over = false;
  process.has_agreed = false;
  process.sequence = 0;
  process.finished.clear();
  process.agreed.reset();
  process.waits = Process::Waits::kNothing;
  Open(process);
}

// Joins, or joins again.
void WorldsSimulation::Open(Process& process) {
  if (!process.alive || process.over) return;
  ++process.connection;
  process.session = next_id_++;
  if (process.epoch == 0) return Join(process);
  JoinAgain(process);
}

void WorldsSimulation::Join(Process& process) {
  const Job& job = *process.job;
  Candidate candidate;
  candidate.process.nonce = process.nonce;
  candidate.process.host = absl::StrCat("host-", process.place);
  candidate.min_size = job.min_size;
  candidate.max_size = job.size;
  candidate.rank = job.asks_ranks ? process.place : -1;
  candidate.session = process.session;
  candidate.deadline = schedule_.now() + kJoinTimeout;
  ToServer(process, [this, &process, candidate](Actions& actions) {
    server_.AddSession(candidate.session, process);
    const absl::Status status = server_.registry().Join(
        process.job->scope, absl::StrCat(process.attempt), candidate, schedule_.now(), actions);
    if (!status.ok()) actions.push_back(EndSession{candidate.session, status});
  });
}

void WorldsSimulation::JoinAgain(Process& process) {
  ++process.reports;
  Returned returned;
  returned.process.nonce = process.nonce;
  returned.process.host = absl::StrCat("host-", process.place);
  returned.epoch = process.epoch;
  returned.rank = process.rank;
  returned.size = process.size;
  returned.finished = ReportOf(process);
  returned.agreed_step = process.agreed;
  ToServer(process, [this, &process, returned, session = process.session](Actions& actions) {
    server_.AddSession(session, process);
    const std::string& scope = process.job->scope;
    const absl::Status status =
        server_.registry().JoinAgain(scope, session, returned, schedule_.now(), actions);
    if (!status.ok()) actions.push_back(EndSession{session, status});
    if (broken_.waits_for_no_one) server_.EndReturn(scope);
  });
}

// The process ends. Whoever started it starts another.
void WorldsSimulation::Die(Process& process) {
  if (!process.alive) return;
  process.alive = false;
  Cut(process);
  Job& job = *process.job;
  if (job.at[process.place] == &process) job.at[process.place] = nullptr;
  if (!job.restarts_all || process.attempt != job.attempt) {
    return After(schedule_.Between(absl::Milliseconds(100), absl::Seconds(3)),
                 [this, &job, place = process.place] { StartProcess(job, place); });
  }
  ++job.attempt;
  for (Process* const other : std::vector<Process*>(job.at)) {
    if (other != nullptr) Die(*other);
  }
  After(schedule_.Between(absl::Milliseconds(100), absl::Seconds(2)), [this, &job] {
    for (int place = 0; place < job.size; ++place) StartProcess(job, place);
  });
}

// The connection is gone: joins again, and makes its call again.
void WorldsSimulation::OnAway(Process& process) {
  if (!process.alive) return;
  if (process.stopped) {
    process.inbox.push_back([this, &process] { OnAway(process); });
    return;
  }
  process.in = false;
  process.session = 0;
  ++process.connection;
  if (process.over) return LoseResult(process);
  OnProcess(process, schedule_.Between(absl::Milliseconds(20), absl::Milliseconds(300)),
            [this, &process, connection = process.connection] {
              if (process.connection == connection) Open(process);
            });
}

// An answer that may come no more, of a world that is over.
void WorldsSimulation::LoseResult(Process& process) {
  if (process.waits == Process::Waits::kRound) Record(process, process.sequence, {"OVER", "", ""});
  if (process.waits != Process::Waits::kNothing) AfterWorld(process);
}

void WorldsSimulation::OnFormed(Process& process, int64_t epoch, int rank, int size) {
  process.taken_since.reset();
  process.in = true;
  if (process.epoch == 0) {
    process.epoch = epoch;
    process.rank = rank;
    process.size = size;
    return Step(process);
  }
  const bool same = process.epoch == epoch && process.rank == rank;
  if (!same) history_.Violate("a member is back in another world");
  if (process.waits != Process::Waits::kNothing) SendCall(process);
}

void WorldsSimulation::OnOver(Process& process) {
  process.over = true;
  if (process.waits == Process::Waits::kNothing) AfterWorld(process);
}

void WorldsSimulation::OnStreamEnd(Process& process, const absl::Status& status) {
  process.in = false;
  process.session = 0;
  if (process.over) return LoseResult(process);
  if (absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status)) {
    return history_.Violate(absl::StrCat("an honest member is refused: ", status.ToString()));
  }
  if (process.epoch == 0) return OnNotAdmitted(process, ReasonOf(status));
  if (absl::IsUnavailable(status) || status.ok()) return OnAway(process);
  // The world is over, or a later one has formed.
  if (process.waits == Process::Waits::kRound) Record(process, process.sequence, {"OVER", "", ""});
  process.over = true;
  AfterWorld(process);
}

// A process that has no world yet tries again, unless its rank stays taken or no world forms.
void WorldsSimulation::OnNotAdmitted(Process& process, const std::string& reason) {
  if (reason == "WORLD_TIMEOUT") return Die(process);
  if (reason == "RANK_TAKEN") {
    if (!process.taken_since) process.taken_since = schedule_.now();
    if (schedule_.now() >= *process.taken_since + kTakenPatience) return Die(process);
  }
  OnAway(process);
}

// The process goes on in a world of another epoch.
void WorldsSimulation::AfterWorld(Process& process) {
  process.waits = Process::Waits::kNothing;
  process.call = 0;
  if (process.job->restarts_all) return Die(process);
  ++process.connection;
  process.session = 0;
  OnProcess(process, schedule_.Between(absl::ZeroDuration(), absl::Milliseconds(500)),
            [this, &process, nonce = process.nonce] {
              if (process.nonce == nonce) JoinWorld(process);
            });
}

}  // namespace remesh::server::coordination
