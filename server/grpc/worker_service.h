// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remesh/v1/worker.grpc.pb.h"
#include "server/grpc/unary.h"

namespace remesh::server {

class WorkerService : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(const Backend& backend) : backend_(backend) {}

  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* ForgetWorker(grpc::CallbackServerContext* context,
                                         const v1::ForgetWorkerRequest* request,
                                         google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ResetWorker(grpc::CallbackServerContext* context,
                                        const v1::ResetWorkerRequest* request,
                                        google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* UndrainWorker(grpc::CallbackServerContext* context,
                                          const v1::UndrainWorkerRequest* request,
                                          google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* DiscardShards(grpc::CallbackServerContext* context,
                                          const v1::DiscardShardsRequest* request,
                                          v1::DiscardShardsResponse* response) override;
  grpc::ServerUnaryReactor* GetTopology(grpc::CallbackServerContext* context,
                                        const v1::GetTopologyRequest* request,
                                        v1::Topology* response) override;

 private:
  const Backend backend_;
};

}  // namespace remesh::server
