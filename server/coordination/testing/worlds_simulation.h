// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordination/testing/schedule.h"
#include "server/coordination/testing/simulated_process.h"
#include "server/coordination/testing/simulated_server.h"
#include "server/coordination/testing/worlds_history.h"

namespace remesh::server::coordination {

// Worlds of processes that join, exchange, agree on steps, write with fences, leave, die, stop and
// lag, over a network that delays and cuts, and a server that dies and comes back, with the real
// Registry and Fences. All by one seed. Laws are checked as it runs.
class WorldsSimulation {
 public:
  WorldsSimulation(uint64_t seed, BrokenRules broken);

  // A time with faults, then one without, in which all must finish.
  void Run();

  const std::vector<std::string>& violations() const { return history_.violations(); }
  const std::map<std::string, int>& counts() const { return history_.counts(); }

 private:
  using Job = SimulatedJob;
  using Process = SimulatedProcess;

  // Time: worlds_simulation.cc.
  void Advance(absl::Time until);
  void After(absl::Duration delay, std::function<void()> run) {
    schedule_.After(delay, std::move(run));
  }
  bool Fault(double probability) { return !quiet_ && schedule_.Chance(probability); }

  // The network: simulated_network.cc.
  absl::Duration Delay();
  void ToServer(Process& process, std::function<void(Actions&)> call);
  void ToProcess(Process& process, std::function<void()> run);
  void Send(Process& process, const Action& action);
  void EndStreams(Process& process, absl::Duration delay);
  void Cut(Process& process);

  // How processes live: simulated_members.cc.
  void OnProcess(Process& process, absl::Duration delay, std::function<void()> run);
  void StartProcess(Job& job, int place);
  void JoinWorld(Process& process);
  void Open(Process& process);
  void Join(Process& process);
  void JoinAgain(Process& process);
  void Die(Process& process);
  void OnAway(Process& process);
  void LoseResult(Process& process);
  void OnFormed(Process& process, int64_t epoch, int rank, int size);
  void OnOver(Process& process);
  void OnStreamEnd(Process& process, const absl::Status& status);
  void OnNotAdmitted(Process& process, const std::string& reason);
  void AfterWorld(Process& process);

  // What they do in their worlds: simulated_calls.cc.
  Caller CallerOf(const Process& process) const;
  void Step(Process& process);
  bool LeavesEarly(const Process& process) const;
  void SendCall(Process& process);
  void SendStep(Process& process, absl::Duration timeout);
  void SendCallAgain(Process& process);
  Contribution ContributionOf(const Process& process, uint64_t sequence) const;
  std::vector<Finished> ReportOf(const Process& process) const;
  void OnResult(Process& process, uint64_t sequence, const Answer& answer);
  void Keep(Process& process, uint64_t sequence, const std::string& digest, const Outcome& outcome);
  void OnRefused(Process& process, uint64_t sequence, const absl::Status& status);
  void OnStep(Process& process, const absl::StatusOr<AgreedStep>& step);
  void Record(Process& process, uint64_t sequence, WorldsHistory::Result result);
  void Leave(Process& process);
  void Write(Process& process);

  // Faults: simulated_faults.cc.
  void Chaos();
  void Inject(Process& process);
  void CrashServer();
  void BreakConnection(Process& process);
  void StopProcess(Process& process);
  void AskToLeave(Process& process);
  void Forge(const Process& process);

  // What must be so in the end: worlds_simulation.cc.
  void CheckEnd();
  void CheckNothingStays();
  std::string ShownWorlds();

  const uint64_t seed_;
  const BrokenRules broken_;
  Schedule schedule_;
  WorldsHistory history_;
  bool quiet_ = false;  // no more faults
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Process>> processes_;
  uint64_t next_id_ = 1;
  SimulatedServer server_;
};

// A number that depends on both in no visible way.
uint64_t Mixed(uint64_t a, uint64_t b);
// The reason of an error, or its code if it has none.
std::string ReasonOf(const absl::Status& status);
// After which a peer is given up.
inline constexpr absl::Duration kSilence = absl::Seconds(10);

}  // namespace remesh::server::coordination
