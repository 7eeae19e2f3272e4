// SPDX-License-Identifier: Apache-2.0
#include "service/rpc/handler_interceptors.h"

#include <utility>

namespace remesh::service {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

// One thing that happens in a call. Whoever runs the interceptors goes on to the next by itself.
class CallEvent : public grpc::experimental::InterceptorBatchMethods {
 public:
  explicit CallEvent(InterceptionHookPoints point) : point_(point) {}

  bool QueryInterceptionHookPoint(InterceptionHookPoints type) override { return type == point_; }
  void Proceed() override {}

  const void* GetSendMessage() override { return sent; }
  grpc::Status GetSendStatus() override { return status; }
  void ModifySendStatus(const grpc::Status& other) override { status = other; }
  void* GetRecvMessage() override { return received; }

  // What a stream's server does not have, or may not change.
  void Hijack() override {}
  grpc::ByteBuffer* GetSerializedSendMessage() override { return nullptr; }
  void ModifySendMessage(const void*) override {}
  bool GetSendMessageStatus() override { return true; }
  std::multimap<std::string, std::string>* GetSendInitialMetadata() override { return nullptr; }
  std::multimap<std::string, std::string>* GetSendTrailingMetadata() override { return nullptr; }
  std::multimap<grpc::string_ref, grpc::string_ref>* GetRecvInitialMetadata() override {
    return nullptr;
  }
  grpc::Status* GetRecvStatus() override { return nullptr; }
  std::multimap<grpc::string_ref, grpc::string_ref>* GetRecvTrailingMetadata() override {
    return nullptr;
  }
  std::unique_ptr<grpc::ChannelInterface> GetInterceptedChannel() override { return nullptr; }
  void FailHijackedRecvMessage() override {}
  void FailHijackedSendMessage() override {}

  google::protobuf::MessageLite* received = nullptr;
  const google::protobuf::MessageLite* sent = nullptr;
  grpc::Status status;

 private:
  const InterceptionHookPoints point_;
};

// The interceptors of a call that were made on this thread, until its handler takes them.
struct Made {
  const grpc::ServerContextBase* context = nullptr;
  std::vector<std::unique_ptr<grpc::experimental::Interceptor>> interceptors;
};

Made& MadeOfThread() {
  static thread_local Made made;
  return made;
}

void KeepForHandler(std::unique_ptr<grpc::experimental::Interceptor> interceptor,
                    const grpc::ServerContextBase* context) {
  Made& made = MadeOfThread();
  if (made.context != context) made = {.context = context, .interceptors = {}};
  made.interceptors.push_back(std::move(interceptor));
}

using Methods = std::shared_ptr<const absl::flat_hash_set<std::string>>;

class LeavingCreator : public ServerInterceptorFactoryInterface {
 public:
  LeavingCreator(Methods methods, std::unique_ptr<ServerInterceptorFactoryInterface> creator)
      : methods_(std::move(methods)), creator_(std::move(creator)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    auto* const made = creator_->CreateServerInterceptor(info);
    if (made == nullptr || !methods_->contains(info->method())) return made;
    KeepForHandler(std::unique_ptr<grpc::experimental::Interceptor>(made), info->server_context());
    return nullptr;
  }

 private:
  const Methods methods_;
  const std::unique_ptr<ServerInterceptorFactoryInterface> creator_;
};

// In gRPC's order: what comes in passes the last interceptor first.
template <typename Interceptors>
void RunIncoming(const Interceptors& interceptors, CallEvent& event) {
  for (auto one = interceptors.rbegin(); one != interceptors.rend(); ++one) {
    (*one)->Intercept(&event);
  }
}

template <typename Interceptors>
void RunOutgoing(const Interceptors& interceptors, CallEvent& event) {
  for (const auto& one : interceptors) one->Intercept(&event);
}

}  // namespace

HandlerInterceptors::Creators HandlerInterceptors::LeaveToHandlers(
    absl::flat_hash_set<std::string> methods, Creators creators) {
  auto shared = std::make_shared<const absl::flat_hash_set<std::string>>(std::move(methods));
  for (auto& creator : creators) {
    creator = std::make_unique<LeavingCreator>(shared, std::move(creator));
  }
  return creators;
}

HandlerInterceptors HandlerInterceptors::Take(const grpc::ServerContextBase& context) {
  Made made = std::exchange(MadeOfThread(), {});
  HandlerInterceptors taken;
  if (made.context != &context) return taken;
  taken.interceptors_ = std::move(made.interceptors);
  CallEvent begins(InterceptionHookPoints::POST_RECV_INITIAL_METADATA);
  RunIncoming(taken.interceptors_, begins);
  return taken;
}

void HandlerInterceptors::OnRead(google::protobuf::MessageLite* message) const {
  CallEvent read(InterceptionHookPoints::POST_RECV_MESSAGE);
  read.received = message;
  RunIncoming(interceptors_, read);
}

void HandlerInterceptors::OnWrite(const google::protobuf::MessageLite& message) const {
  CallEvent write(InterceptionHookPoints::PRE_SEND_MESSAGE);
  write.sent = &message;
  RunOutgoing(interceptors_, write);
}

grpc::Status HandlerInterceptors::OnFinish(grpc::Status status) const {
  CallEvent finish(InterceptionHookPoints::PRE_SEND_STATUS);
  finish.status = std::move(status);
  RunOutgoing(interceptors_, finish);
  return finish.status;
}

}  // namespace remesh::service
