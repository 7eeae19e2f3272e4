// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "remesh/v1/worker.grpc.pb.h"
#include "server/grpc/unary.h"
#include "server/grpc/write_budget.h"

namespace remesh::server {

// Limit on the memory of commands that all streams together make and write at a time. The Prepare of
// one host of 16,384 that exchange with all others takes a quarter.
inline constexpr size_t kMadeCommandsBytesMax = size_t{32} << 20;

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
  const std::shared_ptr<WriteBudget> write_budget_ =
      std::make_shared<WriteBudget>(kMadeCommandsBytesMax);
};

}  // namespace remesh::server
