// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_service.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "service/error_info.h"

namespace remesh::worker {

using service::StatusToGrpc;

namespace {

absl::Status Stopping() {
  return MakeError(absl::StatusCode::kUnavailable, "the worker stops", {"WORKER_STOPS", {}});
}

// Reactor of one call; deletes itself when the call is done. Finish() must be called exactly once;
// `response` stays valid until then.
class Reactor final : public grpc::ServerUnaryReactor {
 public:
  explicit Reactor(absl::AnyInvocable<void()> on_cancel = nullptr)
      : on_cancel_(std::move(on_cancel)) {}

  void OnCancel() override {
    if (on_cancel_) on_cancel_();
  }
  void OnDone() override { delete this; }

 private:
  absl::AnyInvocable<void()> on_cancel_;
};

template <typename Response>
void Answer(Reactor* reactor, Response* response, absl::StatusOr<Response> result) {
  if (result.ok()) *response = *std::move(result);
  reactor->Finish(StatusToGrpc(result.status()));
}

// Ends the call and returns true if no one waits for its answer any more. So calls that were given
// up before their turn hold up no one.
bool EndIfGone(const grpc::CallbackServerContext& context, Reactor* reactor) {
  const bool gone = context.deadline() <= std::chrono::system_clock::now() || context.IsCancelled();
  if (gone) {
    reactor->Finish(StatusToGrpc(
        MakeError(absl::StatusCode::kCancelled, "the caller has gone", {"CANCELLED", {}})));
  }
  return gone;
}

// Runs `call` on the strand, unless its caller has gone by then, and answers with its result.
template <typename Response, typename Call>
Reactor* RunOn(Strand* strand, const grpc::CallbackServerContext* context, Response* response,
               Call call) {
  auto* reactor = new Reactor();
  const bool posted = strand->Post([=] {
    if (!EndIfGone(*context, reactor)) Answer<Response>(reactor, response, call());
  });
  if (!posted) reactor->Finish(StatusToGrpc(Stopping()));
  return reactor;
}

// Like RunOn(), for calls that may wait until the client cancels them.
template <typename Response, typename Call>
Reactor* RunWaiting(Strand* strand, LocalCalls* calls, LocalCalls::CallId id,
                    const grpc::CallbackServerContext* context, Response* response, Call call) {
  auto* reactor = new Reactor([=] { strand->Post([=] { calls->Cancel(id); }); });
  const bool posted = strand->Post([=, call = std::move(call)] {
    if (EndIfGone(*context, reactor)) return;
    call(id, [reactor, response](absl::StatusOr<Response> result) {
      Answer(reactor, response, std::move(result));
    });
  });
  if (!posted) reactor->Finish(StatusToGrpc(Stopping()));
  return reactor;
}

// Finishes the call with an error and returns its reactor if `gate` refuses the caller; otherwise
// returns null.
template <typename Request>
Reactor* RefusedCall(const SocketGate& gate, const grpc::CallbackServerContext& context,
                     const Request& request) {
  const absl::Status may = gate.Check(context.peer(), request.state());
  if (may.ok()) return nullptr;
  auto* reactor = new Reactor();
  reactor->Finish(StatusToGrpc(may));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* LocalService::Allocate(grpc::CallbackServerContext* context,
                                                 const v1::AllocateRequest* request,
                                                 v1::ShardsResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(
      strand_, calls_, next_call_++, context, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->Allocate(id, request, user, std::move(done)); });
}

grpc::ServerUnaryReactor* LocalService::GetShards(grpc::CallbackServerContext* context,
                                                  const v1::GetShardsRequest* request,
                                                  v1::ShardsResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(
      strand_, calls_, next_call_++, context, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->GetShards(id, request, user, std::move(done)); });
}

grpc::ServerUnaryReactor* LocalService::Lend(grpc::CallbackServerContext* context,
                                             const v1::LendRequest* request,
                                             v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(strand_, calls_, next_call_++, context, response,
                    [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
                        auto id, auto done) { calls->Lend(id, request, user, std::move(done)); });
}

grpc::ServerUnaryReactor* LocalService::Seal(grpc::CallbackServerContext* context,
                                             const v1::SealRequest* request,
                                             v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, context, response, [this, request = *request] {
    auto result = buffers_->Seal(request);
    if (result.ok() && result->sealed_shards() == result->total_shards())
      calls_->Sealed(request.state(), result->generation());
    return result;
  });
}

grpc::ServerUnaryReactor* LocalService::Unseal(grpc::CallbackServerContext* context,
                                               const v1::UnsealRequest* request,
                                               v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, context, response,
               [this, request = *request] { return buffers_->Unseal(request); });
}

grpc::ServerUnaryReactor* LocalService::Release(grpc::CallbackServerContext* context,
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
