// SPDX-License-Identifier: Apache-2.0
#include "worker/local/local_service.h"

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

// Runs `call` on the strand and answers with its result.
template <typename Response, typename Call>
Reactor* RunOn(Strand* strand, Response* response, Call call) {
  auto* reactor = new Reactor();
  if (!strand->Post([=] { Answer<Response>(reactor, response, call()); })) {
    reactor->Finish(StatusToGrpc(Stopping()));
  }
  return reactor;
}

// Like RunOn(), for calls that may wait until the client cancels them.
template <typename Response, typename Call>
Reactor* RunWaiting(Strand* strand, LocalCalls* calls, LocalCalls::CallId id, Response* response,
                    Call call) {
  auto* reactor = new Reactor([=] { strand->Post([=] { calls->Cancel(id); }); });
  const bool posted = strand->Post([=, call = std::move(call)] {
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
      strand_, calls_, next_call_++, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->Allocate(id, request, user, std::move(done)); });
}

grpc::ServerUnaryReactor* LocalService::GetShards(grpc::CallbackServerContext* context,
                                                  const v1::GetShardsRequest* request,
                                                  v1::ShardsResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(
      strand_, calls_, next_call_++, response,
      [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
          auto id, auto done) { calls->GetShards(id, request, user, std::move(done)); });
}

grpc::ServerUnaryReactor* LocalService::Lend(grpc::CallbackServerContext* context,
                                             const v1::LendRequest* request,
                                             v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunWaiting(strand_, calls_, next_call_++, response,
                    [calls = calls_, request = *request, user = gate_->UserOf(context->peer())](
                        auto id, auto done) { calls->Lend(id, request, user, std::move(done)); });
}

grpc::ServerUnaryReactor* LocalService::Seal(grpc::CallbackServerContext* context,
                                             const v1::SealRequest* request,
                                             v1::SealResponse* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, response, [this, request = *request] {
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
  return RunOn(strand_, response, [this, request = *request] { return buffers_->Unseal(request); });
}

grpc::ServerUnaryReactor* LocalService::Release(grpc::CallbackServerContext* context,
                                                const v1::ReleaseRequest* request,
                                                google::protobuf::Empty* response) {
  if (auto* refused = RefusedCall(*gate_, *context, *request)) return refused;
  return RunOn(strand_, response,
               [this, request = *request]() -> absl::StatusOr<google::protobuf::Empty> {
                 if (absl::Status status = buffers_->Release(request); !status.ok()) return status;
                 return google::protobuf::Empty();
               });
}

}  // namespace remesh::worker
