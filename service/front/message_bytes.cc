// SPDX-License-Identifier: Apache-2.0
#include "service/front/message_bytes.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/match.h"

namespace remesh::service {
namespace {

using grpc::experimental::InterceptionHookPoints;

uint64_t BytesOfMetadata(const grpc::ServerContextBase& context) {
  uint64_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) bytes += key.size() + value.size();
  return bytes;
}

class CountedMessages : public grpc::experimental::Interceptor {
 public:
  CountedMessages(MessageBytes& bytes, grpc::experimental::ServerRpcInfo& info)
      : bytes_(bytes),
        peer_(info.server_context()->peer()),
        // gRPC's own services have messages of other types.
        has_protobufs_(absl::StartsWith(info.method(), "/remesh.")) {
    bytes_.Add(peer_, MessageBytes::kPerCall + BytesOfMetadata(*info.server_context()));
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    if (has_protobufs_ &&
        batch->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      // A generated class, whose first base is this one.
      const auto* message =
          static_cast<const google::protobuf::MessageLite*>(batch->GetRecvMessage());
      if (message != nullptr) bytes_.Add(peer_, message->ByteSizeLong());
    }
    batch->Proceed();
  }

 private:
  MessageBytes& bytes_;
  const std::string peer_;
  const bool has_protobufs_;
};

class Counters : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Counters(std::shared_ptr<MessageBytes> bytes) : bytes_(std::move(bytes)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CountedMessages(*bytes_, *info);
  }

 private:
  const std::shared_ptr<MessageBytes> bytes_;
};

}  // namespace

void MessageBytes::Add(const std::string& peer, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  by_peer_[peer] += bytes;
}

MessageBytes::ByPeer MessageBytes::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(by_peer_, {});
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MessageBytes::Count(
    std::shared_ptr<MessageBytes> bytes) {
  return std::make_unique<Counters>(std::move(bytes));
}

}  // namespace remesh::service
