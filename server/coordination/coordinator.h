// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/task_queue.h"
#include "remesh/v1/coordination.pb.h"
#include "server/controller/values/own_pause.h"
#include "server/coordination/fences.h"
#include "server/coordination/registry.h"

namespace remesh::server::coordination {

// The other end of a Join stream. Called on the coordinator's thread; must not block.
class MemberSink {
 public:
  virtual ~MemberSink() = default;
  virtual void SendFormed(std::shared_ptr<const FormedWorld> world, int rank) = 0;
  virtual void Send(v1::WorldEvent event) = 0;
  // Nothing else follows. What was sent before still goes out.
  virtual void End(const absl::Status& status) = 0;
};

// A member is sent something at least this often.
inline constexpr absl::Duration kKeepAliveTime = absl::Seconds(3);

// The running registry of worlds: owns its thread and clock, and carries out the registry's actions.
// It never waits for another thread. While the process itself is stopped, no deadline passes and
// no member is silent. Thread-safe.
class Coordinator {
 public:
  // Writes the present epoch of a scope, or forgets the scope, and the last epoch of all. Calls
  // `saved` on any thread once that is on disk, or with the reason why it never will be.
  using SavedFn = absl::AnyInvocable<void(absl::Status)>;
  using SaveFn = std::function<void(const std::string& scope, std::optional<KnownEpoch> present,
                                    int64_t last_epoch, SavedFn saved)>;

  // `round_ended`: with how long a round took, or 0 if that is not known. `figures`: about once a
  // second. Both are called on the coordinator's thread.
  struct Callbacks {
    SaveFn save;
    std::function<void(Ending, absl::Duration)> round_ended = [](Ending, absl::Duration) {};
    std::function<void(const WorldFigures&)> figures = [](const WorldFigures&) {};
  };

  // `message_max`: bytes of a message that gRPC sends. `fences` must outlive this, and so must what
  // the callbacks use.
  Coordinator(int64_t last_epoch, const std::map<std::string, KnownEpoch>& known,
              size_t message_max, Callbacks callbacks, Fences& fences);
  ~Coordinator() { Stop(); }

  // The stream must say when it has ended, whoever ended it. `request`: checked here; the scope must
  // be in order.
  void Join(SessionId session, v1::JoinRequest request, std::shared_ptr<MemberSink> sink);
  void OnStreamEnd(SessionId session);

  // Each reply is called exactly once, on the coordinator's thread; UNAVAILABLE (SHUTTING_DOWN) after
  // Shutdown(). Not OK: the outcome of the round, or the reason why the call has none.
  using ExchangeFn = absl::AnyInvocable<void(absl::StatusOr<Answer>)>;
  void Exchange(CallId call, Caller caller, uint64_t sequence, Contribution contribution,
                absl::Duration timeout, ExchangeFn reply);
  using StepFn = absl::AnyInvocable<void(absl::StatusOr<AgreedStep>)>;
  void AgreeStep(CallId call, Caller caller, int64_t step, absl::Duration timeout, StepFn reply);
  // The caller has gone: the call ends (CANCELLED). Nothing happens if it has ended.
  void EndCall(CallId call);
  using StatusFn = absl::AnyInvocable<void(absl::Status)>;
  void Leave(Caller caller, StatusFn reply);
  void Preempt(std::string scope, int64_t epoch, v1::WorldEvent::Preempt preempt, StatusFn reply);
  // See Registry::List().
  using ListFn = absl::AnyInvocable<void(absl::StatusOr<Registry::Listed>)>;
  void List(std::string prefix, std::string after, size_t most, ListFn reply);

  // Ids of sessions and calls; never 0.
  uint64_t NewId() { return next_id_++; }

  // Ends every session and call with UNAVAILABLE (SHUTTING_DOWN) and refuses new ones. Returns when
  // all have been sent that. Idempotent.
  void Shutdown();
  void Stop() { queue_.Stop(); }

 private:
  struct Session {
    std::shared_ptr<MemberSink> sink;
    absl::Time last_sent;
  };
  struct Call {
    std::string scope;
    std::variant<ExchangeFn, StepFn> reply;
  };

  // All below run on the queue's thread.
  template <typename Task>
  bool Post(Task task);
  absl::Time Now();
  void Tick();
  void SendKeepAlives(absl::Time now);
  void Perform(Actions actions);
  void Do(Answer& action);
  void Do(AnswerStep& action);
  void Do(EndSession& action);
  void Do(SendFormed& action);
  void Do(Send& action);
  void Do(SaveEpoch& action);
  void Do(ForgetScope& action);
  void Do(RaiseEpoch& action);
  void Do(RoundEnded& action);
  MemberSink* SinkOf(SessionId session);

  const Callbacks callbacks_;
  Fences& fences_;
  const Timestamp start_;  // of the steady clock
  const absl::Time start_wall_;
  std::atomic<uint64_t> next_id_{1};

  OwnPause pause_;
  Timestamp paused_{0};  // in all
  Registry registry_;
  absl::flat_hash_map<SessionId, Session> sessions_;
  absl::flat_hash_map<CallId, Call> calls_;
  absl::Time keep_alive_at_;
  absl::Time figures_at_;
  bool shut_down_ = false;

  TaskQueue queue_;  // last: its tasks use all of the above
};

}  // namespace remesh::server::coordination
