// SPDX-License-Identifier: Apache-2.0
#include "client/watch/plan_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/watch/server_stream.h"

namespace remesh::client {

struct PlanStream::Call {
  std::unique_ptr<v1::PlanService::Stub> stub;
  ServerStream<v1::Plan> stream;
  v1::Plan head;
  v1::Plan first;  // transfers that came with the head

  Call(const Endpoint& server, const v1::GetPlanRequest& request)
      : stub(v1::PlanService::NewStub(ConnectServer(server))),
        stream(server,
               [&](grpc::ClientContext* context) { return stub->StreamPlan(context, request); }) {}
};

PlanStream::PlanStream(std::unique_ptr<Call> call) : call_(std::move(call)) {}

PlanStream::~PlanStream() = default;

absl::StatusOr<std::unique_ptr<PlanStream>> PlanStream::Open(const Endpoint& server,
                                                             const std::string& name) {
  v1::GetPlanRequest request;
  request.set_name(name);
  request.set_view(v1::FULL);
  auto call = std::make_unique<Call>(server, request);
  if (!call->stream.Read(call->head)) {
    RETURN_IF_ERROR(call->stream.End());
    return MakeError(absl::StatusCode::kInternal, absl::StrCat(server.address, ": sent no plan"),
                     {.reason = "CALL_FAILED", .metadata = {{"address", server.address}}});
  }
  call->first.mutable_transfers()->Swap(call->head.mutable_transfers());
  return std::unique_ptr<PlanStream>(new PlanStream(std::move(call)));
}

const v1::Plan& PlanStream::head() const { return call_->head; }

absl::Status PlanStream::ForEachTransfer(absl::FunctionRef<void(const v1::Transfer&)> visit) {
  v1::Plan part = std::move(call_->first);
  do {
    for (const v1::Transfer& transfer : part.transfers()) visit(transfer);
  } while (call_->stream.Read(part));
  return call_->stream.End();
}

}  // namespace remesh::client
