// SPDX-License-Identifier: Apache-2.0
#include "client/plan_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/silence_limit.h"

namespace remesh::client {

struct PlanStream::Call {
  Endpoint server;
  std::unique_ptr<v1::PlanService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::Plan>> reader;
  SilenceLimit silence;
  v1::Plan head;
  v1::Plan first;  // transfers that came with the head

  explicit Call(const Endpoint& endpoint)
      : server(endpoint),
        stub(v1::PlanService::NewStub(ConnectServer(endpoint))),
        silence(context, endpoint.timeout_seconds) {}

  bool Read(v1::Plan& part) {
    silence.Start();
    const bool read = reader->Read(&part);
    silence.Stop();
    return read;
  }

  absl::Status End() {
    const grpc::Status status = reader->Finish();
    if (!silence.passed()) return FromGrpcStatus(status, server);
    const std::string seconds = absl::StrCat(server.timeout_seconds);
    return MakeError(absl::StatusCode::kDeadlineExceeded,
                     absl::StrCat(server.address, ": said nothing for ", seconds, " s"),
                     {.reason = "CALL_FAILED",
                      .metadata = {{"address", server.address}, {"timeout_seconds", seconds}}});
  }
};

PlanStream::PlanStream(std::unique_ptr<Call> call) : call_(std::move(call)) {}

PlanStream::~PlanStream() { call_->context.TryCancel(); }

absl::StatusOr<std::unique_ptr<PlanStream>> PlanStream::Open(const Endpoint& server,
                                                             const std::string& name) {
  auto call = std::make_unique<Call>(server);
  v1::GetPlanRequest request;
  request.set_name(name);
  request.set_view(v1::FULL);
  call->reader = call->stub->StreamPlan(&call->context, request);
  if (!call->Read(call->head)) {
    RETURN_IF_ERROR(call->End());
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
  } while (call_->Read(part));
  return call_->End();
}

}  // namespace remesh::client
