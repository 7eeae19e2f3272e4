// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/controller/controller.h"
#include "tests/simulation/server/model_worker.h"

namespace remesh::server {

// A world around the real controller: model workers, streams that delay but keep their order, a
// disk, callers, and trouble. Everything follows from the seed. Laws are checked as things happen;
// breaches are collected.
class Simulation {
 public:
  struct Options {
    uint64_t seed = 1;
    int workers = 4;
    int states = 2;
    double trouble = 0.02;      // chance per step of the world that something breaks
    double failure = 0.02;      // chance per command that an attempt fails on a worker
    bool buffers_lost = false;  // whether some deaths are those of machines
    bool rolls_back = false;    // whether the journal goes back now and then
    bool assigned_ids = false;  // whether workers leave their device ids to the server
  };

  explicit Simulation(Options options);
  // Lets the world go on for `seconds` of its time.
  void Run(double seconds);
  // Ends all trouble, waits for things to settle, and checks that they did.
  void SettleAndCheck();

  const std::vector<std::string>& violations() const { return violations_; }
  const std::map<v1::Execution::Phase, int>& outcomes() const { return outcomes_; }
  // Times that the journal went back, that the server found out, and that it lived with it on
  // purpose.
  int rolled_back() const { return rolled_back_; }
  int found_out() const { return found_out_; }
  // Executions without lost hosts that succeeded while the server still knew them at the end.
  int succeeded_without_lost() const { return succeeded_without_lost_; }

 private:
  struct Worker {
    std::unique_ptr<ModelWorker> model;
    StreamId stream = 0;  // 0: not attached
    bool alive = true;
    std::set<std::string> lost;  // uids of states that it held parts of when its buffers went
    // What it held then, until the server has heard of it and what it had said is carried out.
    std::unique_ptr<ModelWorker> ghost;
  };
  struct Stream {
    int worker = 0;
    bool open = true;      // from the server's side
    bool foreign = false;  // another cluster's worker
    int64_t last_up = 0, last_down = 0;
  };

  void At(int64_t time, std::function<void()> what);
  int64_t Soon(int64_t most) {
    return now_ + 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(most));
  }
  bool Chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }
  void Violate(std::string what);

  void StartServer(bool accepts_older = false);
  void CrashServer(bool accepts_older = false);
  void RollBackJournal();
  void RestartIfBehind();
  void WhenRunning(std::function<void()> what);
  void RunDeferred();
  void Handle(Event event);
  void Perform(Actions actions);
  void Do(SendToWorker& action);
  void Do(CloseStream& action);
  void Do(Persist& action);
  void Do(ReplyTo& action);
  void Do(StartPlanning& action);
  void Do(ExecutionEnded& action);
  template <typename Other>
  void Do(Other&) {}

  void Attach(int worker);
  void Say(int worker, v1::AttachRequest message);
  void BreakStream(int worker, bool tell_server);
  void Heartbeat();
  void MakeTrouble();
  void LoseBuffers(int worker);
  void LayGhost(int worker);
  bool LostSome(const std::string& state_uid) const;
  void ForeignWorker();
  void OnCommand(int worker, const v1::AttachResponse& command);
  void CheckDeviceIds(int worker, const v1::Welcome& welcome);
  void NotePlacement(int worker, const v1::AttachResponse& command);
  std::set<int64_t> CompleteGenerations(const std::string& state_uid, bool with_ghosts) const;
  void Ask();
  void AskToCreate(const std::string& state);
  void AskToDelete(const std::string& state);
  void AskToMove(const std::string& state);
  void CheckCommit(const v1::Commit& commit);
  void CheckState(const v1::State& state);
  void CheckLostHostsAreSpared(const v1::Execution& execution);

  std::shared_ptr<const PlacedState> Place(const v1::StateSpec& spec) const;
  v1::StateSpec RandomSpec(const std::vector<int64_t>& lost = {});
  absl::StatusOr<PlannedExecution> MakeMove(const StartPlanning& question);
  void GiveUpHosts(v1::PlanOptions& options);

  const Options options_;
  std::mt19937_64 random_;
  int64_t now_ = 0;  // microseconds
  uint64_t order_ = 0;
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> agenda_;

  struct Journal {
    std::map<std::string, std::string> records;
    JournalPast past;
  };
  Journal disk_;
  std::vector<Journal> copies_;  // somebody made of it
  uint64_t leaders_ = 0;
  int rolled_back_ = 0, found_out_ = 0;
  int64_t paused_until_ = 0;  // the server's process stands still
  std::deque<std::function<void()>> deferred_;
  std::unique_ptr<Controller> controller_;
  uint64_t life_ = 0;  // of the server
  int64_t disk_busy_until_ = 0;
  std::vector<Worker> workers_;
  std::map<StreamId, Stream> streams_;
  StreamId next_stream_ = 1;
  CallId next_call_ = 1;
  bool settling_ = false;

  std::vector<int64_t> device_ids_;  // by worker, as the server said; -1: not yet
  std::set<std::string> deleted_uids_;
  // Hosts that hold a part of a generation, as they were told: (uid, generation) -> execution ("":
  // trainers) -> hosts.
  std::map<std::pair<std::string, int64_t>, std::map<std::string, std::set<int>>> placements_;
  std::map<std::string, std::string> moved_uids_;  // execution -> uid of its state
  std::map<std::pair<std::string, int64_t>, std::string>
      committed_by_;                            // (uid, generation) -> execution
  std::map<std::string, std::string> uids_;     // state -> uid, as callers were told
  std::map<std::string, int64_t> generations_;  // uid -> generation, as callers were told
  std::map<std::string, std::string> running_;  // execution -> state, as callers were told
  std::map<v1::Execution::Phase, int> outcomes_;
  int succeeded_without_lost_ = 0;
  std::map<CallId, std::function<void(const absl::StatusOr<Reply>&)>> calls_;
  std::vector<std::string> violations_;
};

}  // namespace remesh::server
