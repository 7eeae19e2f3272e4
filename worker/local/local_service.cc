// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_service.h"

#include <utility>

#include "base/caller_gone.h"
#include "base/error.h"
#include "service/rpc/error_info.h"
#include "service/rpc/unary_call.h"

namespace remesh::worker {

using grpc::ServerUnaryReactor;
using service::Completion;
using service::HasGone;

namespace {

absl::Status Stopping() {
  return MakeError(absl::StatusCode::kUnavailable, "the worker stops", {"WORKER_STOPS", {}});
}

// Runs `call` on the strand, unless its caller has gone by then, and answers with its result.
template <typename Response, typename Call>
ServerUnaryReactor* RunOn(Strand* strand, grpc::CallbackServerContext* context, Response* response,
                          Call call) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  strand->Post([=, completion = Completion(reactor, Stopping)]() mutable {
    if (HasGone(*context)) return completion.Finish(CallerGone());
    absl::StatusOr<Response> result = call();
    completion.Answer(response, std::move(result));
  });
  return reactor;
}

// Like RunOn(), for calls that may wait until the client cancels them.
template <typename Response, typename Call>
ServerUnaryReactor* RunWaiting(Strand* strand, LocalCalls* calls, LocalCalls::CallId id,
                               const grpc::CallbackServerContext* context, Response* response,
                               Call call) {
  const auto cancel = [=] { strand->Post([=] { calls->Cancel(id); }); };
  auto* reactor = new service::CancellableCall(cancel);
  strand->Post([=, call = std::move(call), completion = Completion(reactor, Stopping)]() mutable {
    if (HasGone(*context)) return completion.Finish(CallerGone());
    call(id,
         [response, completion = std::move(completion)](absl::StatusOr<Response> result) mutable {
           completion.Answer(response, std::move(result));
         });
  });
  return reactor;
}

ServerUnaryReactor* Refuse(grpc::CallbackServerContext& context, const absl::Status& why) {
  ServerUnaryReactor* reactor = context.DefaultReactor();
  reactor->Finish(service::StatusToGrpc(why));
  return reactor;
}

// Finishes the call with an error and returns its reactor if `gate` refuses the caller; otherwise
// returns null.
template <typename Request>
ServerUnaryReactor* RefusedCall(const SocketGate& gate, grpc::CallbackServerContext& context,
                                const Request& request) {
  const absl::Status may = gate.Check(context.peer(), request.state());
  return may.ok() ? nullptr : Refuse(context, may);
}

}  // namespace

ServerUnaryReactor* LocalService::GetHost(grpc::CallbackServerContext* context,
                                          const v1::GetHostRequest* request,
                                          v1::GetHostResponse* response) {
  const absl::Status may = gate_->CheckAny(context->peer());
  if (!may.ok()) return Refuse(*context, may);
  return RunWaiting(
      strand_, calls_, next_call_++, context, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->GetHost(id, request, user, std::move(done)); });
}

ServerUnaryReactor* LocalService::Allocate(grpc::CallbackServerContext* context,
                                           const v1::AllocateRequest* request,
                                           v1::ShardsResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(
      strand_, calls_, next_call_++, context, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->Allocate(id, request, user, std::move(done)); });
}

ServerUnaryReactor* LocalService::GetShards(grpc::CallbackServerContext* context,
                                            const v1::GetShardsRequest* request,
                                            v1::ShardsResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(
      strand_, calls_, next_call_++, context, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->GetShards(id, request, user, std::move(done)); });
}

ServerUnaryReactor* LocalService::Lend(grpc::CallbackServerContext* context,
                                       const v1::LendRequest* request, v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(strand_, calls_, next_call_++, context, response,
                    [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
                        auto id, auto done) { calls->Lend(id, request, user, std::move(done)); });
}

ServerUnaryReactor* LocalService::Seal(grpc::CallbackServerContext* context,
                                       const v1::SealRequest* request, v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, context, response, [this, request = *request] {
    auto result = buffers_->Seal(request);
    if (result.ok() && result->sealed_shards() == result->total_shards())
      calls_->Sealed(request.state(), result->generation());
    return result;
  });
}

ServerUnaryReactor* LocalService::Unseal(grpc::CallbackServerContext* context,
                                         const v1::UnsealRequest* request,
                                         v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, context, response,
               [this, request = *request] { return buffers_->Unseal(request); });
}

ServerUnaryReactor* LocalService::Release(grpc::CallbackServerContext* context,
                                          const v1::ReleaseRequest* request,
                                          google::protobuf::Empty* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, context, response,
               [this, request = *request]() -> absl::StatusOr<google::protobuf::Empty> {
                 if (absl::Status status = buffers_->Release(request); !status.ok()) return status;
                 return google::protobuf::Empty();
               });
}

}  // namespace remesh::worker
