// SPDX-License-Identifier: Apache-2.0
// The faults of WorldsSimulation: what is done to processes, connections, the server and its disk.
#include <utility>

#include "server/coordination/testing/worlds_simulation.h"

namespace remesh::server::coordination {

// One fault after the other, as long as there are to be any.
void WorldsSimulation::Chaos() {
  if (quiet_) return;
  After(schedule_.Between(absl::Milliseconds(50), absl::Seconds(2)), [this] { Chaos(); });
  if (!processes_.empty()) Inject(*processes_[schedule_.Below(processes_.size())]);
}

void WorldsSimulation::Inject(Process& process) {
  switch (schedule_.Below(12)) {
    case 0:
    case 1:
      if (process.alive) history_.Count("deaths");
      return Die(process);
    case 2:
      return CrashServer();
    case 3:
    case 4:
      return BreakConnection(process);
    case 5:
      return StopProcess(process);
    case 6:
      return server_.KeepDisk();
    case 7:
      return AskToLeave(process);
    case 8:
      return Forge(process);
    default:
      return;
  }
}

// The server dies and comes back, now and then with an older disk.
void WorldsSimulation::CrashServer() {
  if (!server_.runs()) return;
  history_.Count("server restarts");
  server_.Crash();
  for (auto& process : processes_) {
    if (process->session == 0 && process->waits == Process::Waits::kNothing) continue;
    const int connection = process->connection;
    After(Delay(), [this, each = process.get(), connection] {
      if (each->connection == connection) OnAway(*each);
    });
  }
  if (schedule_.Chance(0.3)) {
    history_.Count("disks that went back");
    server_.ReturnToKeptDisk();
  }
  After(schedule_.Between(absl::Milliseconds(10), absl::Seconds(3)), [this] {
    if (!server_.runs()) server_.Start();
  });
}

void WorldsSimulation::BreakConnection(Process& process) {
  if (!process.alive || process.session == 0) return;
  history_.Count("connections that break");
  Cut(process);
  OnProcess(process, Delay(), [this, &process, connection = process.connection] {
    if (process.connection == connection) OnAway(process);
  });
}

// The process stands still for a while. When that is long, its peers give it up.
void WorldsSimulation::StopProcess(Process& process) {
  if (!process.alive || process.stopped) return;
  history_.Count("stops");
  process.stopped = true;
  const absl::Duration time = schedule_.Between(absl::ZeroDuration(), absl::Seconds(20));
  if (time > kSilence) {
    After(kSilence, [this, &process] {
      if (!process.alive || !process.stopped) return;
      Cut(process);
      process.inbox.push_back([this, &process] { OnAway(process); });
    });
  }
  After(time, [&process] { process.Continue(); });
}

void WorldsSimulation::AskToLeave(Process& process) {
  server_.Do([&](Actions& actions) {
    v1::WorldEvent::Preempt preempt;
    preempt.set_next_size(1 + static_cast<int>(schedule_.Below(4)));
    (void)server_.registry().Preempt(process.job->scope, 0, preempt, schedule_.now(), actions);
  });
}

// Calls of a stranger in the name of a member.
void WorldsSimulation::Forge(const Process& process) {
  server_.Do([&](Actions& actions) {
    Caller caller = CallerOf(process);
    caller.rank = static_cast<int>(schedule_.Below(6)) - 1;
    caller.nonce = "forged";
    const CallId call = next_id_++;
    const absl::Time now = schedule_.now();
    server_.registry().Exchange(call, caller, schedule_.Below(3), {.name = "forged"},
                                now + absl::Seconds(1), now, actions);
    (void)server_.registry().Leave(caller, now, actions);
  });
}

}  // namespace remesh::server::coordination
