// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include <utility>

#include "absl/status/status.h"
#include "service/rpc/error_info.h"
#include "service/rpc/handler_interceptors.h"

namespace remesh::server {

// A server stream that ends at once.
template <typename T>
class RefusedStream : public grpc::ServerWriteReactor<T> {
 public:
  explicit RefusedStream(const absl::Status& status) {
    this->Finish(service::StatusToGrpc(status));
  }
  void OnDone() override { delete this; }
};

// A bidirectional stream that ends before any message is read.
template <typename Request, typename Response>
class RefusedBidiStream : public grpc::ServerBidiReactor<Request, Response> {
 public:
  RefusedBidiStream(const absl::Status& status, service::HandlerInterceptors interceptors)
      : interceptors_(std::move(interceptors)) {
    this->Finish(interceptors_.OnFinish(service::StatusToGrpc(status)));
  }
  void OnDone() override { delete this; }

 private:
  const service::HandlerInterceptors interceptors_;
};

}  // namespace remesh::server
