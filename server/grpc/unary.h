// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/caller_gone.h"
#include "base/error.h"
#include "server/callers/call_limits.h"
#include "server/callers/caller.h"
#include "server/core.h"
#include "service/rpc/audit_log.h"
#include "service/rpc/catch_faults.h"
#include "service/rpc/error_info.h"
#include "service/rpc/unary_call.h"
#include "service/tls/authorization.h"

namespace remesh::server {

// What every handler needs. All members must outlive the gRPC server.
struct Backend {
  Core& core;
  const service::Authorizer& authorizer;
  CallLimits& limits;
  service::AuditLog* audit = nullptr;  // null: no audit log

  // Authorizes and counts a call; call it once for each call, except for an Attach, which is
  // authorized again with its host. PERMISSION_DENIED, or RESOURCE_EXHAUSTED (RATE_LIMITED).
  absl::Status Authorize(const grpc::ServerContextBase& context, const char* method,
                         const service::Resource& resource) const {
    return Admit(context, method, resource, service::NameOf(resource));
  }
  // As above, for the resource of this name ("" for none).
  absl::Status Authorize(const grpc::ServerContextBase& context, const char* method,
                         const std::string& resource) const {
    return Admit(context, method, service::ResourceOf(resource), resource);
  }

 private:
  absl::Status Admit(const grpc::ServerContextBase& context, const char* method,
                     const service::Resource& resource, const std::string& name) const {
    if (audit != nullptr) audit->SetResource(context, name);
    absl::Status status = authorizer(service::IdentityOf(context), resource, method);
    if (!status.ok() || !IsLimited(method)) return status;
    return limits.Take(CallerOf(context));
  }
};

using service::HasGone;

// Finishes with UNAVAILABLE if it is dropped.
class Completion : public service::Completion {
 public:
  explicit Completion(grpc::ServerUnaryReactor* reactor)
      : service::Completion(reactor, ShuttingDown) {}
};

// Returns a function that finishes a call with the controller's reply on Core::writers(), in the
// caller's turn there.
template <typename Response>
Core::ReplyFn FinishOnWriters(Core& core, std::string caller, Response* response,
                              Completion completion) {
  return [&core, caller = std::move(caller), response,
          completion = std::move(completion)](absl::StatusOr<Reply> reply) mutable {
    core.writers().Post({.caller = caller}, [response, completion = std::move(completion),
                                             reply = std::move(reply)]() mutable {
      if (reply.ok()) *response = std::get<Response>(*std::move(reply));
      completion.Finish(reply.status());
    });
  };
}

// Makes the call in the caller's turn, unless the caller has gone by then, and finishes it with the
// controller's reply.
template <typename Response>
void CallController(Core& core, const grpc::CallbackServerContext* context, Request request,
                    Response* response, Completion completion) {
  const std::string caller = CallerOf(*context);
  core.Call(std::move(request), FinishOnWriters(core, caller, response, std::move(completion)),
            caller, [context] { return HasGone(*context); });
}

// As AskController(), for a call that may wait for long: one of the caller's OpenWatches, which ends
// when the caller cancels it or its deadline passes.
template <typename Response>
grpc::ServerUnaryReactor* WaitForController(const Backend& backend,
                                            grpc::CallbackServerContext* context,
                                            const char* method, const std::string& resource,
                                            Request request, Response* response) {
  Core& core = backend.core;
  const std::string caller = CallerOf(*context);
  const CallId id = core.NewCall();
  auto* reactor = new service::CancellableCall([&core, id, caller] { core.EndCall(id, caller); });
  Completion completion(reactor);
  const absl::Status may = backend.Authorize(*context, method, resource);
  auto place = may.ok() ? core.open_watches().Begin(caller) : may;
  if (!place.ok()) {
    completion.Finish(place.status());
    return reactor;
  }
  auto finish = [place = *std::move(place),
                 finish = FinishOnWriters(core, caller, response, std::move(completion))](
                    absl::StatusOr<Reply> reply) mutable { finish(std::move(reply)); };
  core.Call(id, std::move(request), std::move(finish), caller,
            [context] { return HasGone(*context); });
  return reactor;
}

// Ends a call that was refused.
inline grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context,
                                        const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(service::StatusToGrpc(status));
  return reactor;
}

// Handles a call by `handle(completion)`, if the caller may make it.
template <typename Handle>
grpc::ServerUnaryReactor* HandleIfAllowed(const Backend& backend,
                                          grpc::CallbackServerContext* context, const char* method,
                                          const std::string& resource, Handle handle) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Completion completion(reactor);
  if (absl::Status status = backend.Authorize(*context, method, resource); !status.ok()) {
    completion.Finish(status);
  } else {
    handle(std::move(completion));
  }
  return reactor;
}

// Handles a call that the controller answers.
template <typename Response>
grpc::ServerUnaryReactor* AskController(const Backend& backend,
                                        grpc::CallbackServerContext* context, const char* method,
                                        const std::string& resource, Request request,
                                        Response* response) {
  return HandleIfAllowed(backend, context, method, resource, [&](Completion completion) {
    CallController(backend.core, context, std::move(request), response, std::move(completion));
  });
}

// Answers at once with `answer()`, an optional response that is quick to find. Returns null when
// there is none; the call must then be handled in full. REQUIRES: Backend::Authorize().
template <typename Response, typename Answer>
grpc::ServerUnaryReactor* AnswerNow(grpc::CallbackServerContext* context, Response* response,
                                    Answer answer) {
  std::optional<Response> now = answer();
  if (!now.has_value()) return nullptr;
  *response = *std::move(now);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// The caller, for the desk.
inline PlanDesk::Asker AskerOf(const grpc::CallbackServerContext* context) {
  return {.turn = {.caller = CallerOf(*context)}, .gone = [context] { return HasGone(*context); }};
}

// Finishes the call with `answer()`, an absl::StatusOr of the response, on a thread of the pool in
// the caller's turn, unless the caller has gone by then.
template <typename Response, typename Answer>
void AnswerOn(ThreadPool& pool, const grpc::CallbackServerContext* context, Response* response,
              Completion completion, Answer answer) {
  auto done = std::make_shared<Completion>(std::move(completion));
  const Turn turn{.caller = CallerOf(*context)};
  const bool taken =
      pool.Post(turn, [context, response, done, answer = std::move(answer)]() mutable {
        if (HasGone(*context)) return done->Finish(CallerGone());
        absl::StatusOr<Response> result = service::CatchFaults([&] { return answer(); });
        done->Answer(response, std::move(result));
      });
  if (!taken) done->Finish(NotTaken(pool));
}

// As AnswerOn(), for `answer(budget)` under the limits of planning; it may be called twice.
template <typename Response, typename Answer>
void AnswerAtDesk(PlanDesk& desk, const grpc::CallbackServerContext* context, Response* response,
                  Completion completion, Answer answer,
                  PlanDesk::Place place = PlanDesk::Place::kPlanners) {
  desk.Run(
      AskerOf(context),
      [response, answer = std::move(answer)](planner::Budget& budget) mutable {
        absl::StatusOr<Response> result = answer(budget);
        if (result.ok()) *response = *std::move(result);
        return result.status();
      },
      [completion = std::move(completion)](absl::Status status) mutable {
        completion.Finish(status);
      },
      place);
}

// Handles a call that takes a thread of the pool to answer: see AnswerOn.
template <typename Response, typename Answer>
grpc::ServerUnaryReactor* AskPool(const Backend& backend, ThreadPool& pool,
                                  grpc::CallbackServerContext* context, const char* method,
                                  const std::string& resource, Response* response, Answer answer) {
  return HandleIfAllowed(backend, context, method, resource, [&](Completion completion) {
    AnswerOn(pool, context, response, std::move(completion), std::move(answer));
  });
}

// Handles a call that takes planning to answer: see AnswerAtDesk.
template <typename Response, typename Answer>
grpc::ServerUnaryReactor* AskDesk(const Backend& backend, grpc::CallbackServerContext* context,
                                  const char* method, const std::string& resource,
                                  Response* response, Answer answer,
                                  PlanDesk::Place place = PlanDesk::Place::kPlanners) {
  return HandleIfAllowed(backend, context, method, resource, [&](Completion completion) {
    AnswerAtDesk(backend.core.desk(), context, response, std::move(completion), std::move(answer),
                 place);
  });
}

// Handles a call about a state that takes planning to answer. `answer(state, budget)`, which
// returns an absl::StatusOr of the response, runs once the controller has returned the state.
template <typename Response, typename Answer>
grpc::ServerUnaryReactor* AskDeskOfState(const Backend& backend,
                                         grpc::CallbackServerContext* context, const char* method,
                                         const std::string& name, Response* response,
                                         Answer answer) {
  return HandleIfAllowed(backend, context, method, name, [&](Completion completion) {
    v1::GetStateRequest get;
    get.set_name(name);
    auto answer_at_desk = [context, response, answer, &core = backend.core,
                           completion =
                               std::move(completion)](absl::StatusOr<Reply> reply) mutable {
      if (!reply.ok()) return completion.Finish(AtField("state", reply.status()));
      AnswerAtDesk(core.desk(), context, response, std::move(completion),
                   [answer, state = std::get<v1::State>(*std::move(reply))](
                       planner::Budget& budget) { return answer(state, budget); });
    };
    backend.core.Call(get, std::move(answer_at_desk), CallerOf(*context),
                      [context] { return HasGone(*context); });
  });
}

}  // namespace remesh::server
