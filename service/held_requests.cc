// SPDX-License-Identifier: Apache-2.0
#include "service/held_requests.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "service/bounded_request.h"
#include "service/error_info.h"

namespace remesh::service {
namespace {

using grpc::experimental::InterceptionHookPoints;

// gRPC makes this just before it parses the call's request, on the same thread, and calls
// Intercept() right after that.
class HeldRequest : public grpc::experimental::Interceptor, public RequestGate {
 public:
  HeldRequest(HeldRequests& held, MessageBytes* messages, std::string caller, std::string peer)
      : held_(held), messages_(messages), caller_(std::move(caller)), peer_(std::move(peer)) {
    GateOfThread() = this;
  }
  ~HeldRequest() override {
    LeaveThread();
    if (bytes_ > 0) held_.Give(caller_, bytes_);
  }

  uint64_t most() const override { return held_.limits().of_caller; }
  grpc::Status Admit(uint64_t memory) override {
    LeaveThread();
    const absl::Status status = held_.Take(caller_, memory);
    if (status.ok()) bytes_ = memory;
    return StatusToGrpc(status);
  }

  void OnRefused(uint64_t bytes, const grpc::Status& why) override {
    if (messages_ != nullptr) messages_->Add(peer_, bytes);
    refusal_ = why;
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    LeaveThread();
    if (refusal_ && batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS))
      batch->ModifySendStatus(*refusal_);
    batch->Proceed();
  }

 private:
  void LeaveThread() {
    if (GateOfThread() == this) GateOfThread() = nullptr;
  }

  HeldRequests& held_;
  MessageBytes* const messages_;
  const std::string caller_, peer_;
  uint64_t bytes_ = 0;
  std::optional<grpc::Status> refusal_;
};

class Gates : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Gates(std::shared_ptr<HeldRequests> held, HeldRequests::CallerOf caller_of,
        std::shared_ptr<MessageBytes> messages)
      : held_(std::move(held)), caller_of_(std::move(caller_of)), messages_(std::move(messages)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    const grpc::ServerContextBase& context = *info->server_context();
    return new HeldRequest(*held_, messages_.get(), caller_of_(context), context.peer());
  }

 private:
  const std::shared_ptr<HeldRequests> held_;
  const HeldRequests::CallerOf caller_of_;
  const std::shared_ptr<MessageBytes> messages_;
};

}  // namespace

absl::Status HeldRequests::Take(const std::string& caller, uint64_t bytes) {
  if (shares_.Take(caller, bytes)) return absl::OkStatus();
  const ByteShares::Limits& most = limits();
  ErrorInfo info{.reason = "REQUEST_MEMORY",
                 .metadata = {{"bytes", absl::StrCat(bytes)},
                              {"bytes_max_of_caller", absl::StrCat(most.of_caller)}}};
  const bool may_fit_later = bytes <= most.of_caller;
  if (may_fit_later) info.metadata["retry_after_seconds"] = "1";
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the request would take ",
                                may_fit_later ? absl::StrCat("about ", bytes) : "too many",
                                " bytes of memory; requests in progress may take ", most.of_caller,
                                " of one caller and ", most.all, " in all"),
                   info);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> HeldRequests::Limit(
    std::shared_ptr<HeldRequests> held, CallerOf caller_of,
    std::shared_ptr<MessageBytes> messages) {
  return std::make_unique<Gates>(std::move(held), std::move(caller_of), std::move(messages));
}

}  // namespace remesh::service
