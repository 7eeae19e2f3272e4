// SPDX-License-Identifier: Apache-2.0
#include "service/front/unfinished_calls.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <sys/eventfd.h>

#include <utility>

#include "base/check.h"

namespace remesh::service {
namespace {

// The context of a call; counts the call while it waits to begin.
class CountedContext : public grpc::CallbackServerContext {
 public:
  explicit CountedContext(UnfinishedCalls& calls) : calls_(calls) { calls_.Arrive(); }
  ~CountedContext() override { Begin(); }
  void Begin() {
    if (!std::exchange(begun_, true)) calls_.Leave();
  }

 private:
  UnfinishedCalls& calls_;
  bool begun_ = false;
};

class CountedContexts : public grpc::ContextAllocator {
 public:
  explicit CountedContexts(std::shared_ptr<UnfinishedCalls> calls) : calls_(std::move(calls)) {}
  grpc::CallbackServerContext* NewCallbackServerContext() override {
    return new CountedContext(*calls_);
  }
  // For methods that no service has; such calls end as soon as they begin.
  grpc::GenericCallbackServerContext* NewGenericCallbackServerContext() override {
    calls_->Arrive();
    return new grpc::GenericCallbackServerContext;
  }
  void Release(grpc::CallbackServerContext* context) override {
    if (dynamic_cast<CountedContext*>(context) == nullptr) calls_->Leave();
    delete context;
  }
  void Release(grpc::GenericCallbackServerContext* context) override {
    Release(static_cast<grpc::CallbackServerContext*>(context));
  }

 private:
  const std::shared_ptr<UnfinishedCalls> calls_;
};

// Counts one call from its beginning to its end.
class CountedCall : public grpc::experimental::Interceptor {
 public:
  CountedCall(UnfinishedCalls& calls, std::string peer) : calls_(calls), peer_(std::move(peer)) {
    calls_.Begin(peer_);
  }
  ~CountedCall() override { calls_.End(peer_); }
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override { batch->Proceed(); }

 private:
  UnfinishedCalls& calls_;
  const std::string peer_;
};

class CountedCalls : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CountedCalls(std::shared_ptr<UnfinishedCalls> calls) : calls_(std::move(calls)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    auto* context = dynamic_cast<CountedContext*>(info->server_context());
    if (context != nullptr) context->Begin();
    return new CountedCall(*calls_, info->server_context()->peer());
  }

 private:
  const std::shared_ptr<UnfinishedCalls> calls_;
};

}  // namespace

UnfinishedCalls::UnfinishedCalls(int max)
    : max_(max), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  REMESH_CHECK(event_);
}

void UnfinishedCalls::Begin(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  if (++counts_[peer] != max_ + 1) return;
  excessive_.push_back(peer);
  eventfd_write(event_.get(), 1);
}

void UnfinishedCalls::End(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  const auto count = counts_.find(peer);
  if (--count->second == 0) counts_.erase(count);
}

void UnfinishedCalls::Arrive() {
  ++arrived_;
  const int waiting = ++waiting_;
  if (waiting == kWaitingMax / 2 + 1) rose_ = true;
  if (waiting == kWaitingMax / 2 + 1 || waiting == kWaitingMax + 1) eventfd_write(event_.get(), 1);
}

UnfinishedCalls::Flood UnfinishedCalls::TakeFlood() {
  const bool rose = rose_.exchange(false);
  if (!rose && (!flooded() || arrived_ - told_ < kWaitingMax / 2)) return Flood::kNone;
  told_ = arrived_.load();
  if (rose) return Flood::kMayBegin;
  return waiting_ > kCrowdMax ? Flood::kIsTooMuch : Flood::kGoesOn;
}

std::vector<std::string> UnfinishedCalls::TakeExcessive() {
  absl::MutexLock lock(&mutex_);
  eventfd_t unused;
  eventfd_read(event_.get(), &unused);
  return std::exchange(excessive_, {});
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> UnfinishedCalls::Count(
    std::shared_ptr<UnfinishedCalls> calls, grpc::ServerBuilder& builder) {
  builder.SetContextAllocator(std::make_unique<CountedContexts>(calls));
  return std::make_unique<CountedCalls>(std::move(calls));
}

}  // namespace remesh::service
