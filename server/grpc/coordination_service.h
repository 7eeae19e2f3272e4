// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/coordination.grpc.pb.h"
#include "server/grpc/unary.h"

namespace remesh::server {

// All methods but Join, whose responses are bytes (member_stream.h).
using CoordinationMethods = v1::CoordinationService::WithCallbackMethod_Exchange<
    v1::CoordinationService::WithCallbackMethod_Leave<
        v1::CoordinationService::WithCallbackMethod_ReportPreemption<
            v1::CoordinationService::WithCallbackMethod_AgreeStep<
                v1::CoordinationService::WithCallbackMethod_ListWorlds<
                    v1::CoordinationService::Service>>>>>;

class CoordinationService : public CoordinationMethods {
 public:
  explicit CoordinationService(const Backend& backend);

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
  grpc::ServerWriteReactor<grpc::ByteBuffer>* JoinStream(grpc::CallbackServerContext* context,
                                                         const v1::JoinRequest* request);

  const Backend backend_;
};

}  // namespace remesh::server
