// SPDX-License-Identifier: Apache-2.0
#include "service/front/pollers.h"

namespace remesh::service {
namespace {

void Poll(grpc::ServerCompletionQueue& queue) {
  void* tag;
  bool ok;
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace

void Pollers::Start() {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Poll(*queue_); });
}

Pollers::~Pollers() {
  queue_->Shutdown();
  if (threads_.empty()) Poll(*queue_);
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace remesh::service
