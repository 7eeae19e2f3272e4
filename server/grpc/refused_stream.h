// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "service/rpc/error_info.h"

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
  explicit RefusedBidiStream(const absl::Status& status) {
    this->Finish(service::StatusToGrpc(status));
  }
  void OnDone() override { delete this; }
};

}  // namespace remesh::server
