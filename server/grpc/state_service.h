// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/state.grpc.pb.h"
#include "server/grpc/unary.h"

namespace remesh::server {

class StateService : public v1::StateService::CallbackService {
 public:
  explicit StateService(const Backend& backend) : backend_(backend) {}

  grpc::ServerUnaryReactor* CreateState(grpc::CallbackServerContext* context,
                                        const v1::CreateStateRequest* request,
                                        v1::State* response) override;
  grpc::ServerUnaryReactor* GetState(grpc::CallbackServerContext* context,
                                     const v1::GetStateRequest* request,
                                     v1::State* response) override;
  grpc::ServerUnaryReactor* ListStates(grpc::CallbackServerContext* context,
                                       const v1::ListStatesRequest* request,
                                       v1::ListStatesResponse* response) override;
  grpc::ServerWriteReactor<v1::State>* WatchState(grpc::CallbackServerContext* context,
                                                  const v1::WatchStateRequest* request) override;
  grpc::ServerUnaryReactor* UpdateState(grpc::CallbackServerContext* context,
                                        const v1::UpdateStateRequest* request,
                                        v1::UpdateStateResponse* response) override;
  grpc::ServerUnaryReactor* DeleteState(grpc::CallbackServerContext* context,
                                        const v1::DeleteStateRequest* request,
                                        v1::DeleteStateResponse* response) override;

 private:
  const Backend backend_;
};

}  // namespace remesh::server
