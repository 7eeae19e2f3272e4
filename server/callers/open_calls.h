// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/controller/values/event.h"
#include "server/planning/plan_desk.h"

namespace remesh::server {

// Calls that wait for the controller's reply. Not thread-safe, but what AskerOf() returns may be
// asked on any thread, also after the call has its reply.
class OpenCalls {
 public:
  using ReplyFn = absl::AnyInvocable<void(absl::StatusOr<Reply>)>;
  using Gone = std::function<bool()>;

  // `gone` returns whether no one waits for the reply; it is not called once `reply` was. May be
  // null: someone always waits.
  void Add(CallId id, ReplyFn reply, std::string caller, Gone gone) {
    calls_[id] = {.reply = std::move(reply),
                  .caller = std::move(caller),
                  .listener = std::make_shared<Listener>(std::move(gone))};
  }

  // Nothing happens when the call is not open.
  void Answer(CallId id, absl::StatusOr<Reply> reply) {
    auto call = calls_.extract(id);
    if (!call.empty()) Finish(call.mapped(), std::move(reply));
  }

  void AnswerAll(const absl::Status& status) {
    for (auto& [id, call] : std::exchange(calls_, {})) Finish(call, status);
  }

  // The caller, for work that only this call wants.
  PlanDesk::Asker AskerOf(CallId id) const {
    const auto call = calls_.find(id);
    if (call == calls_.end()) return {.turn = {}, .gone = [] { return true; }};
    return {.turn = {.caller = call->second.caller},
            .gone = [listener = call->second.listener] { return listener->HasGone(); }};
  }

 private:
  class Listener {
   public:
    explicit Listener(Gone gone) : gone_(std::move(gone)) {}
    bool HasGone() {
      absl::MutexLock lock(&mutex_);
      return ended_ || (gone_ != nullptr && gone_());
    }
    void End() {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }

   private:
    absl::Mutex mutex_;
    const Gone gone_;
    bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  };
  struct Open {
    ReplyFn reply;
    std::string caller;
    std::shared_ptr<Listener> listener;
  };

  static void Finish(Open& call, absl::StatusOr<Reply> reply) {
    call.listener->End();
    call.reply(std::move(reply));
  }

  absl::flat_hash_map<CallId, Open> calls_;
};

}  // namespace remesh::server
