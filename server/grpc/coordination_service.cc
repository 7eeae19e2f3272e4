// SPDX-License-Identifier: Apache-2.0
#include "server/grpc/coordination_service.h"

#include <utility>

#include "server/controller/values/names.h"
#include "server/controller/values/pagination.h"
#include "server/coordination/coordinator.h"
#include "server/coordination/messages.h"
#include "server/coordination/requests.h"
#include "server/grpc/member_stream.h"
#include "server/grpc/refused_stream.h"

namespace remesh::server {
namespace {

using coordination::CallId;
using coordination::Coordinator;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr int kJoinMethod = 0;  // of the service, as coordination.proto orders them

// What Exchange and AgreeStep have in common: a call that waits, and that its caller may cancel.
struct WaitingCall {
  CallId id = 0;
  ServerUnaryReactor* reactor = nullptr;
};
WaitingCall BeginWaiting(Coordinator& coordinator) {
  const CallId id = coordinator.NewId();
  return {id, new service::CancellableCall([&coordinator, id] { coordinator.EndCall(id); })};
}

void Respond(const coordination::Answer& answer, v1::ExchangeResponse* response,
             Completion& completion) {
  const auto& outcome = std::get<coordination::SharedOutcome>(answer.with);
  *response = coordination::ResponseOf(*outcome, answer.digest);
  completion.Finish(absl::OkStatus());
}

// Copies payloads on a thread of the pool, so that no one else's round waits for that.
void RespondOn(ThreadPool& pool, const std::string& turn, coordination::Answer answer,
               v1::ExchangeResponse* response, Completion completion) {
  auto done = std::make_shared<Completion>(std::move(completion));
  if (std::get<coordination::SharedOutcome>(answer.with)->payloads.empty()) {
    return Respond(answer, response, *done);
  }
  const bool taken = pool.Post(
      {.caller = turn},
      [answer = std::move(answer), response, done]() mutable { Respond(answer, response, *done); });
  if (!taken) done->Finish(NotTaken(pool));
}

}  // namespace

CoordinationService::CoordinationService(const Backend& backend) : backend_(backend) {
  using Handler = grpc::internal::CallbackServerStreamingHandler<v1::JoinRequest, grpc::ByteBuffer>;
  MarkMethodCallback(kJoinMethod, new Handler([this](CallbackServerContext* context,
                                                     const v1::JoinRequest* request) {
                       return JoinStream(context, request);
                     }));
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* CoordinationService::JoinStream(
    CallbackServerContext* context, const v1::JoinRequest* request) {
  absl::Status status = backend_.Authorize(*context, "Join", request->scope());
  if (status.ok()) status = coordination::CheckScope(request->scope());
  if (!status.ok()) return new RefusedStream<grpc::ByteBuffer>(status);
  return MemberStream::Start(backend_.core.coordinator(), backend_.core.talkers(),
                             service::JobOf(request->scope()), *request);
}

ServerUnaryReactor* CoordinationService::Exchange(CallbackServerContext* context,
                                                  const v1::ExchangeRequest* request,
                                                  v1::ExchangeResponse* response) {
  Coordinator& coordinator = backend_.core.coordinator();
  const WaitingCall call = BeginWaiting(coordinator);
  Completion completion(call.reactor);
  const absl::Status status = backend_.Authorize(*context, "Exchange", request->scope());
  auto checked = status.ok() ? coordination::ExchangeCallOf(*request) : status;
  if (!checked.ok()) {
    completion.Finish(checked.status());
    return call.reactor;
  }
  auto reply = [&pool = backend_.core.talkers(), turn = service::JobOf(request->scope()), response,
                completion =
                    std::move(completion)](absl::StatusOr<coordination::Answer> answer) mutable {
    if (!answer.ok()) return completion.Finish(answer.status());
    RespondOn(pool, turn, *std::move(answer), response, std::move(completion));
  };
  coordinator.Exchange(call.id, std::move(checked->caller), checked->sequence,
                       std::move(checked->contribution), checked->timeout, std::move(reply));
  return call.reactor;
}

ServerUnaryReactor* CoordinationService::Leave(CallbackServerContext* context,
                                               const v1::LeaveRequest* request,
                                               google::protobuf::Empty*) {
  return HandleIfAllowed(backend_, context, "Leave", request->scope(), [&](Completion completion) {
    absl::StatusOr<coordination::Caller> caller = coordination::CallerOf(*request);
    if (!caller.ok()) return completion.Finish(caller.status());
    backend_.core.coordinator().Leave(
        *std::move(caller), [completion = std::move(completion)](
                                const absl::Status& status) mutable { completion.Finish(status); });
  });
}

ServerUnaryReactor* CoordinationService::ReportPreemption(
    CallbackServerContext* context, const v1::ReportPreemptionRequest* request,
    google::protobuf::Empty*) {
  return HandleIfAllowed(
      backend_, context, "ReportPreemption", request->scope(), [&](Completion completion) {
        absl::StatusOr<v1::WorldEvent::Preempt> preempt = coordination::PreemptOf(*request);
        if (!preempt.ok()) return completion.Finish(preempt.status());
        backend_.core.coordinator().Preempt(
            request->scope(), request->epoch(), *std::move(preempt),
            [completion = std::move(completion)](const absl::Status& status) mutable {
              completion.Finish(status);
            });
      });
}

ServerUnaryReactor* CoordinationService::AgreeStep(CallbackServerContext* context,
                                                   const v1::AgreeStepRequest* request,
                                                   v1::AgreeStepResponse* response) {
  Coordinator& coordinator = backend_.core.coordinator();
  const WaitingCall call = BeginWaiting(coordinator);
  Completion completion(call.reactor);
  const absl::Status status = backend_.Authorize(*context, "AgreeStep", request->scope());
  auto checked = status.ok() ? coordination::StepCallOf(*request) : status;
  if (!checked.ok()) {
    completion.Finish(checked.status());
    return call.reactor;
  }
  coordinator.AgreeStep(call.id, std::move(checked->caller), checked->step, checked->timeout,
                        [response, completion = std::move(completion)](
                            absl::StatusOr<coordination::AgreedStep> agreed) mutable {
                          if (agreed.ok()) {
                            response->set_step(agreed->step);
                            *response->mutable_preempt() = std::move(agreed->preempt);
                          }
                          completion.Finish(agreed.status());
                        });
  return call.reactor;
}

ServerUnaryReactor* CoordinationService::ListWorlds(CallbackServerContext* context,
                                                    const v1::ListWorldsRequest* request,
                                                    v1::ListWorldsResponse* response) {
  return HandleIfAllowed(
      backend_, context, "ListWorlds", request->parent(), [&](Completion completion) {
        const auto prefix = ParseParent("parent", request->parent());
        if (!prefix.ok()) return completion.Finish(prefix.status());
        const auto page = ParsePage(request->page_size(), request->page_token(), *prefix);
        if (!page.ok()) return completion.Finish(page.status());
        auto reply = [response, prefix = *prefix, completion = std::move(completion)](
                         absl::StatusOr<coordination::Registry::Listed> listed) mutable {
          if (!listed.ok()) return completion.Finish(listed.status());
          for (v1::World& world : listed->worlds) *response->add_worlds() = std::move(world);
          if (listed->more) {
            const std::string& last = response->worlds().rbegin()->name();
            response->set_next_page_token(MakePageToken(prefix, last));
          }
          completion.Finish(absl::OkStatus());
        };
        backend_.core.coordinator().List(*prefix, page->after, static_cast<size_t>(page->size),
                                         std::move(reply));
      });
}

}  // namespace remesh::server
