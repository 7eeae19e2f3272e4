// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/coordination/fences.h"
#include "server/coordination/registry.h"
#include "server/coordination/testing/schedule.h"
#include "server/coordination/testing/simulated_process.h"
#include "server/coordination/testing/worlds_history.h"

namespace remesh::server::coordination {

// Rules of the protocol that can be broken, to see that the simulation finds it.
struct BrokenRules {
  bool other_payloads = false;    // a member that calls again brings another payload
  bool no_digests = false;        // members do not tell the digests of their results
  bool last_round_only = false;   // they tell their last round, not all since their last OK
  bool waits_for_no_one = false;  // after a restart the server goes on with the first that is back
  bool formed_before_disk = false;  // Formed is sent before the epoch is on disk
  bool raises_late = false;         // the fences learn of an epoch after its members do
  bool forgets_loss = false;        // the server never takes a member for lost
  bool no_leap = false;             // the epochs go on from a disk that went back
};

// How late a deadline may be noticed.
inline constexpr absl::Duration kSimulatedTick = absl::Milliseconds(10);

// The server of a simulation: the real Registry and Fences with a disk, in lives that end. It checks
// what it does against the laws. Not thread-safe.
class SimulatedServer {
 public:
  struct Callbacks {
    // An action goes on its way to the process that it is for.
    std::function<void(SimulatedProcess&, const Action&)> send;
    std::function<absl::Duration()> delay;  // of a message
    std::function<bool()> quiet;            // whether there are no more faults
  };
  SimulatedServer(BrokenRules broken, Schedule& schedule, WorldsHistory& history,
                  Callbacks callbacks);

  bool runs() const { return registry_ != nullptr; }
  // Counts its lives: an event of an earlier one has no effect.
  int life() const { return life_; }
  Registry& registry() { return *registry_; }
  const Fences& fences() const { return *fences_; }

  void Start();
  void Crash();
  // As if members that have not joined again after the restart were not awaited.
  void EndReturn(const std::string& scope);
  // The disk as it is now is what it may go back to when the server crashes.
  void KeepDisk() { kept_ = disk_; }
  void ReturnToKeptDisk();
  bool DiskIsEmpty() const { return disk_.worlds.empty(); }

  // Runs `call` on the registry, and what follows. No effect while the server does not run.
  void Do(const std::function<void(Actions&)>& call);
  // When OnTick() has something to do next; InfiniteFuture if nothing waits for the time.
  absl::Time NextTick() const;
  void OnTick();

  // Whose session or call it is, from now on.
  void AddSession(SessionId session, SimulatedProcess& process) { sessions_[session] = &process; }
  void AddCall(CallId call, SimulatedProcess& process) { calls_[call] = &process; }
  // An Exchange that must be answered by then.
  void SetDeadline(CallId call, absl::Time deadline) { deadlines_[call] = deadline; }
  // The process's connection is gone, with this session and call.
  void OnCut(SessionId session, CallId call, const std::string& scope);
  // Streams of the process that it no longer knows of have ended.
  void EndOtherStreams(const SimulatedProcess& process);

 private:
  struct Disk {
    int64_t last_epoch = 0;
    std::map<std::string, KnownEpoch> worlds;
  };

  void EndSession(SessionId session);
  void Perform(const Actions& actions);
  void Take(const Action& action);
  void SendTo(SessionId session, const Action& action);
  void TakeCall(CallId call, const Action& action);
  void TakeEnd(const coordination::EndSession& end);
  void TakeFormed(const SendFormed& formed);
  void TakeRaised(const RaiseEpoch& raised);
  void Save(const SaveEpoch& save);
  void CheckDeadlines();

  const BrokenRules broken_;
  Schedule& schedule_;
  WorldsHistory& history_;
  const Callbacks callbacks_;

  Disk disk_;
  absl::Time disk_free_;  // when it has written what it was asked to
  Disk kept_;

  // Of this life.
  int life_ = 0;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Fences> fences_;
  std::map<SessionId, SimulatedProcess*> sessions_;
  std::map<CallId, SimulatedProcess*> calls_;
  std::map<CallId, absl::Time> deadlines_;
  std::map<SessionId, int64_t> epoch_of_;  // what Formed said
};

}  // namespace remesh::server::coordination
