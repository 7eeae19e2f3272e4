// SPDX-License-Identifier: Apache-2.0
#include "service/front/held_requests.h"

#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "service/front/bounded_request.h"
#include "service/front/refused_message.h"
#include "service/log/log.h"
#include "service/rpc/error_info.h"

namespace remesh::service {
namespace {

using grpc::experimental::InterceptionHookPoints;

// The status with its reason: gRPC's own has none.
grpc::Status WithReason(const grpc::Status& status) {
  if (!status.error_details().empty()) return status;
  const bool memory = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  return StatusToGrpc(
      MakeError(static_cast<absl::StatusCode>(status.error_code()), status.error_message(),
                {.reason = memory ? "REQUEST_MEMORY" : "REQUEST_UNREADABLE", .metadata = {}}));
}

// gRPC makes this just before it parses the call's request, on the same thread, and calls
// Intercept() right after that. So it does after each message of a stream.
class HeldRequest : public grpc::experimental::Interceptor, public RequestGate {
 public:
  HeldRequest(HeldRequests& held, MessageBytes* messages, std::string caller,
              grpc::experimental::ServerRpcInfo& info)
      : held_(held),
        messages_(messages),
        caller_(std::move(caller)),
        peer_(info.server_context()->peer()),
        method_(info.method()) {
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
    absl::MutexLock lock(&mutex_);
    refusal_ = WithReason(why);
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    LeaveThread();
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) OnMessage();
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const std::optional<grpc::Status> refused = refusal();
      if (refused) batch->ModifySendStatus(*refused);
    }
    batch->Proceed();
  }

 private:
  // A stream reads on until a message is refused, which looks to it like the end.
  void OnMessage() {
    const std::optional<RefusedMessage> refused = TakeRefusedOfThread();
    if (!refused.has_value()) return;
    OnRefused(refused->bytes, refused->why);
    LogWarning("a message of a stream is refused, and the stream ends",
               {{"method", method_}, {"peer", peer_}, {"error", StatusFromGrpc(*refusal())}});
  }

  std::optional<grpc::Status> refusal() {
    absl::MutexLock lock(&mutex_);
    return refusal_;
  }

  void LeaveThread() {
    if (GateOfThread() == this) GateOfThread() = nullptr;
  }

  HeldRequests& held_;
  MessageBytes* const messages_;
  const std::string caller_, peer_, method_;
  uint64_t bytes_ = 0;
  absl::Mutex mutex_;  // a stream may end while one of its messages is read
  std::optional<grpc::Status> refusal_ ABSL_GUARDED_BY(mutex_);
};

class Gates : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Gates(std::shared_ptr<HeldRequests> held, HeldRequests::CallerOf caller_of,
        std::shared_ptr<MessageBytes> messages)
      : held_(std::move(held)), caller_of_(std::move(caller_of)), messages_(std::move(messages)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new HeldRequest(*held_, messages_.get(), caller_of_(*info->server_context()), *info);
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
