// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "server/controller/controller.h"
#include "server/controller/testing/placed_test_boxes.h"
#include "tests/simulation/server/faults.h"
#include "tests/simulation/server/losses.h"
#include "tests/simulation/server/model_worker.h"

namespace remesh::server {

// A world around the real controller: model workers, streams that delay but keep their order, a
// disk, callers, and faults. Everything follows from the seed, but for what a flipped bit hits in a
// real journal. Laws are checked as things happen; breaches are collected.
class Simulation {
 public:
  // A bug that some law must find.
  enum class Planted : int8_t {
    kNothing,
    kWritesIgnored,          // host-1 does not tell of writes
    kDegradedIgnoresWrites,  // the server does not look at them for DEGRADED
    kDiscardUnchecked,       // the server discards a last copy without consent
    kCommitNotJournaled,     // of a write: READY before it is durable
    kOnlyMovesMustExist,     // the server takes only later generations for committed
    kDeletionNotWaited,      // the server answers a deletion before hosts have freed the state
  };
  struct Options {
    uint64_t seed = 1;
    int workers = 4;
    int states = 2;
    Faults::Options faults;
    bool operates = false;      // whether an operator does what operators may do
    bool assigned_ids = false;  // whether workers leave their device ids to the server
    bool copies = false;        // whether every box is on two hosts, if there are two
    // Whether the server knows boxes. Without them it cannot find that a LOST state is DEGRADED.
    bool layouts = true;
    Planted planted = Planted::kNothing;
  };

  explicit Simulation(Options options);
  // Lets the world go on for `seconds` of its time.
  void Run(double seconds);
  // Ends all faults, waits for things to settle, and checks that they did.
  void SettleAndCheck();

  const std::vector<std::string>& violations() const { return violations_; }
  const std::map<v1::Execution::Phase, int>& outcomes() const { return outcomes_; }
  // Times that each fault happened.
  const std::map<Fault, int>& injected() const { return faults_.injected(); }
  // Times that the server found that the journal went back, and lived with it on purpose.
  int found_out() const { return found_out_; }
  // Journals with a flipped bit that were refused, and in which that changed nothing.
  int flips_refused() const { return flips_refused_; }
  int flips_harmless() const { return flips_harmless_; }
  // Calls of the operator that were not refused, by what they asked.
  const std::map<std::string, int>& operated() const { return operated_; }
  // Attempts on hosts with communicators of an earlier one.
  int reused_communicators() const;
  // Deletions that were waited for, and hosts that their answers named.
  int deletions_waited() const { return deletions_waited_; }
  int absent_named() const { return absent_named_; }
  // States that callers saw, by phase.
  const std::map<v1::State::Phase, int>& seen() const { return seen_; }
  // Times that what is written once was committed, as workers or callers were told.
  int writes_committed() const { return writes_committed_; }
  // A digest of all commands to workers, with their times.
  uint64_t commands() const { return commands_; }
  // Executions without lost hosts that succeeded while the server still knew them at the end.
  int succeeded_without_lost() const { return succeeded_without_lost_; }
  // Moves that had nothing to do, and those that gave up hosts that the server called lost.
  int stayed() const { return stayed_; }
  int gave_up_absent() const { return gave_up_absent_; }

 private:
  struct Worker {
    std::unique_ptr<ModelWorker> model;
    StreamId stream = 0;  // 0: not attached
    bool alive = true;
    Losses losses;
    // With which of the events that servers handled it was drained; nothing: it is not, or is not
    // for long.
    std::optional<uint64_t> drained_at;
    int drain_changes = 0;  // that an operator asked for
  };
  // What a message says that its worker holds, in truth: all of it, or one generation.
  struct Report {
    bool all = false;
    std::map<ModelWorker::Key, ModelWorker::Held> held;
  };
  struct Stream {
    int worker = 0;
    int deaths = 0;    // of the worker's machine, when it registered
    bool open = true;  // from the server's side
    bool welcomed = false;
    bool foreign = false;  // another cluster's worker
    int64_t last_up = 0, last_down = 0;
    std::vector<Report> reports = {};  // before it is welcomed
  };

  void At(int64_t time, std::function<void()> what);
  int64_t Soon(int64_t most) {
    return now_ + 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(most));
  }
  bool Chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }
  void Violate(std::string what);

  // The server.
  void StartServer(bool accepts_older = false);
  void CrashServer(bool accepts_older = false);
  void CopyJournal();
  void RestoreCopy(size_t copy);
  void ForgetDeviceIds();
  void FlipABit();
  void RestartIfBehind();
  void WhenRunning(std::function<void()> what);
  void RunDeferred();
  void Handle(Event event);
  void Perform(Actions actions);
  void Do(SendToWorker& action);
  void Do(SendLater& action);
  void Do(CloseStream& action);
  void Do(Persist& action);
  void Do(ReplyTo& action);
  void Do(StartPlanning& action);
  void Do(ExecutionEnded& action);
  template <typename Other>
  void Do(Other&) {}

  // The workers.
  void Attach(int worker);
  void Send(int worker, v1::AttachRequest message);
  void BreakStream(int worker, bool tell_server);
  void Heartbeat();
  void InjectFaults();
  bool CanHappen(Fault fault, const Worker& worker) const;
  void Inject(Fault fault, int worker);
  void Kill(int worker);
  void OnStreamEnd(const Stream& stream);
  void ForeignWorker(int worker);
  // `sent`: with which of the events that servers handled.
  void OnCommand(int worker, const v1::AttachResponse& command, uint64_t sent);
  void CheckDeviceIds(int worker, const v1::Welcome& welcome);
  void NotePlacement(int worker, const v1::AttachResponse& command);
  // The callers.
  void Ask();
  void AskToCreate(const std::string& state);
  void AskToDelete(const std::string& state);
  void AskToUpdate(const std::string& state);
  void AskToMove(const std::string& state);
  void CheckDeleted(const v1::State& state, const v1::DeleteStateResponse& response);
  // Trainers.
  void Rewrite();
  void FinishWrites();
  bool NeedsWrite(const std::string& state, const std::string& state_uid, int64_t generation) const;
  Report ReportBy(int worker, const v1::AttachRequest& message) const;
  void OnHeld(StreamId id, Report report);
  void TakeHeld(int worker, const Report& report);
  // What the server knows of the shards of a state, beside its answer.
  struct Contents {
    bool sealed = true;                     // on all hosts that are not lost
    std::set<std::string> shards;           // writes that filled them, in truth
    std::set<std::string> writes;           // as the hosts say
    std::vector<ModelWorker::Shard> boxes;  // of sealed shards
  };
  Contents ContentsOf(const v1::State& state) const;
  void CheckWrites(const v1::State& state);
  v1::State WithPlantedPhase(v1::State state) const;
  void CheckSource(const v1::Commit& commit);
  // What is written once.
  void NoteCommitted(const std::string& state_uid);
  void NoteCommitted(const v1::AttachResponse& command);
  void CheckFill(const std::string& host, const std::string& state_uid);
  void CheckOnce(const v1::State& state);
  bool AwaitsJournal(const v1::State& state) const;
  void CheckStep(const v1::State& state);
  void PlantInRecords(std::vector<Record>& records) const;
  void PlantInCommand(v1::AttachResponse& command) const;
  // The operator.
  void Operate();
  template <typename Question>
  void Ask(Question question, std::function<void(const Reply&)> done);
  void ResolveAnExecution();
  void CheckSourceIsWhole(const v1::Execution& execution);
  void DiscardWhatIsOwed();
  void CheckDiscarded(const v1::Worker& worker, const v1::StateManifest& gone, bool consents);
  void ResetWorker(int host);
  void ForgetWorker(int host);
  void ChangeDrained(int host);
  bool DrainedBefore(int host, uint64_t asked) const;

  // The laws.
  static int IndexOf(const std::string& host);
  static bool LiesOn(const v1::State& state, const std::string& host);
  static Part PartOf(const v1::State& state, const std::string& writer);
  std::set<std::string> WritersOf(const v1::State& state) const;
  bool Deleted(const std::string& state_uid) const;
  bool GivenUp(const Part& part, const std::set<int>& hosts) const;
  bool HoldsOr(int host, const Part& part, uint64_t unheard_at) const;
  bool HasComplete(const std::string& state_uid, uint64_t unheard_at) const;
  std::vector<std::string> Lacking(const v1::State& state, const std::string& writer) const;
  void CheckCommit(const v1::Commit& commit);
  void CheckState(const v1::State& state);
  void CheckLies(const v1::State& state);
  void CheckCreated(const v1::State& state, uint64_t asked);
  static bool Stays(const v1::Execution& execution);
  void CheckStays(const v1::Execution& execution);
  void CheckStarted(const v1::StartExecutionRequest& start, const v1::Execution& execution);
  void CheckLostHostsAreSpared(const v1::Execution& execution);

  // After everything has settled.
  struct Settled {
    std::map<std::string, v1::State> states;     // by uid
    std::set<Part> waited_for;                   // targets of executions that cannot complete
    std::map<std::string, std::set<Part>> owed;  // by host
  };
  // Of questions that change nothing.
  template <typename Response, typename Question>
  Response AskNow(Question question) {
    Response response;
    const CallId id = next_call_++;
    calls_[id] = [&](const absl::StatusOr<Reply>& reply) {
      if (!reply.ok()) return Violate(reply.status().ToString());
      response = std::get<Response>(*reply);
    };
    Handle(Call{.id = id, .request = std::move(question)});
    if (calls_.erase(id) > 0) Violate("a question has no answer");
    return response;
  }
  Settled LookAround();
  bool Incomplete(const v1::State& state);
  bool InTheWayOf(const v1::State& state) const;
  static Part PartOf(const v1::StateManifest& manifest);
  static Part TargetOf(const v1::Execution& execution);
  void CheckWaits(const v1::Execution& execution);
  void CheckSettled(const v1::State& state, const Settled& settled);
  void CheckHeld(const Worker& worker, const Part& part, bool pending, const Settled& settled);

  std::shared_ptr<const PlacedState> Place(const v1::StateSpec& spec) const;
  std::vector<TestBox> BoxesOf(const v1::StateSpec& spec) const;
  v1::StateSpec RandomSpec(const std::vector<int64_t>& lost = {});
  absl::StatusOr<PlannedExecution> MakeMove(const StartPlanning& question);
  static absl::StatusOr<PlannedExecution> MakeStay(const StartPlanning& question);
  void GiveUpHosts(v1::PlanOptions& options);

  const Options options_;
  Faults faults_;
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
  int flips_refused_ = 0, flips_harmless_ = 0;
  int64_t paused_until_ = 0;  // the server's process stands still
  std::deque<std::function<void()>> deferred_;
  std::unique_ptr<Controller> controller_;
  uint64_t life_ = 0;     // of the server
  uint64_t handled_ = 0;  // events, by all servers
  int64_t disk_busy_until_ = 0;
  std::vector<Worker> workers_;
  std::map<StreamId, Stream> streams_;
  StreamId next_stream_ = 1;
  CallId next_call_ = 1;
  bool settling_ = false;

  std::vector<int64_t> device_ids_;       // by worker, as the server said; -1: not yet
  std::map<int64_t, int> device_owners_;  // the first one to have the id
  // Hosts that hold a part of a generation, as they were told.
  std::map<Part, std::set<int>> placements_;
  std::map<std::string, std::string> moved_uids_;  // execution -> uid of its state
  // Executions that were told to commit a (uid, generation): ever, and since the journal went back.
  std::map<std::pair<std::string, int64_t>, std::set<std::string>> writers_;
  std::map<std::pair<std::string, int64_t>, std::string> committed_by_;
  std::map<std::string, std::string> uids_;     // state -> uid, as callers were told
  std::map<std::string, int64_t> generations_;  // uid -> generation, as callers were told
  std::map<std::string, std::string> running_;  // execution -> state, as callers were told
  std::map<std::string, uint64_t> asked_;       // execution -> with which event it was asked for
  std::map<v1::Execution::Phase, int> outcomes_;
  std::map<v1::State::Phase, int> seen_;
  uint64_t commands_ = 0;
  int writes_ = 0;  // that trainers began
  int writes_committed_ = 0;
  std::set<std::string>
      committed_;  // uids of what is written once, as workers or callers were told
  // The steps that UpdateState set.
  struct Steps {
    int64_t answered = 0;          // the last one that was answered OK
    std::set<int64_t> unanswered;  // asked since, and not refused
    std::optional<int64_t> once;   // of what is written once: as it was READY
  };
  std::map<std::string, Steps> steps_;  // by uid
  int deletions_ = 0, deletions_waited_ = 0, absent_named_ = 0;
  // What hosts reported to this life of the server that they hold, by worker.
  std::map<int, std::map<ModelWorker::Key, ModelWorker::Held>> reported_;
  std::map<std::string, int> operated_;
  int succeeded_without_lost_ = 0;
  int stayed_ = 0, gave_up_absent_ = 0;
  std::map<CallId, std::function<void(const absl::StatusOr<Reply>&)>> calls_;
  std::vector<std::string> violations_;
};

}  // namespace remesh::server
