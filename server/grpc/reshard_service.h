// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/reshard.grpc.pb.h"
#include "server/grpc/unary.h"

namespace remesh::server {

class ReshardService : public v1::ReshardService::CallbackService {
 public:
  explicit ReshardService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* StartExecution(grpc::CallbackServerContext* context,
                                           const v1::StartExecutionRequest* request,
                                           v1::Execution* response) override;
  grpc::ServerUnaryReactor* GetExecution(grpc::CallbackServerContext* context,
                                         const v1::GetExecutionRequest* request,
                                         v1::Execution* response) override;
  grpc::ServerUnaryReactor* ListExecutions(grpc::CallbackServerContext* context,
                                           const v1::ListExecutionsRequest* request,
                                           v1::ListExecutionsResponse* response) override;
  grpc::ServerWriteReactor<v1::Execution>* WatchExecution(
      grpc::CallbackServerContext* context, const v1::WatchExecutionRequest* request) override;
  grpc::ServerUnaryReactor* CancelExecution(grpc::CallbackServerContext* context,
                                            const v1::CancelExecutionRequest* request,
                                            v1::Execution* response) override;
  grpc::ServerUnaryReactor* ResolveExecution(grpc::CallbackServerContext* context,
                                             const v1::ResolveExecutionRequest* request,
                                             v1::Execution* response) override;

 private:
  const Backend backend_;
};

}  // namespace remesh::server
