// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/coordination.grpc.pb.h"
#include "server/grpc/unary.h"

namespace remesh::server {

class CoordinationService : public v1::CoordinationService::CallbackService {
 public:
  explicit CoordinationService(const Backend& backend) : backend_(backend) {}

  grpc::ServerWriteReactor<v1::WorldEvent>* Join(grpc::CallbackServerContext* context,
                                                 const v1::JoinRequest* request) override;
  grpc::ServerUnaryReactor* Exchange(grpc::CallbackServerContext* context,
                                     const v1::ExchangeRequest* request,
                                     v1::ExchangeResponse* response) override;
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context,
                                  const v1::LeaveRequest* request,
                                  google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ReportPreemption(grpc::CallbackServerContext* context,
                                             const v1::ReportPreemptionRequest* request,
                                             google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* AgreeStep(grpc::CallbackServerContext* context,
                                      const v1::AgreeStepRequest* request,
                                      v1::AgreeStepResponse* response) override;
  grpc::ServerUnaryReactor* ListWorlds(grpc::CallbackServerContext* context,
                                       const v1::ListWorldsRequest* request,
                                       v1::ListWorldsResponse* response) override;

 private:
  const Backend backend_;
};

}  // namespace remesh::server
