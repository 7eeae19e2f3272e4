// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "base/strand.h"
#include "remesh/v1/local.grpc.pb.h"
#include "worker/local/local_calls.h"
#include "worker/local/socket_gate.h"
#include "worker/local/state_buffers.h"

namespace remesh::worker {

// LocalService on gRPC's callback API. Each call that the gate lets through becomes a task on the
// strand that owns the buffers.
class LocalService final : public v1::LocalService::CallbackService {
 public:
  // All arguments must outlive the server that runs this service.
  LocalService(Strand* strand, StateBuffers* buffers, LocalCalls* calls, const SocketGate* gate)
      : strand_(strand), buffers_(buffers), calls_(calls), gate_(gate) {}

  grpc::ServerUnaryReactor* GetHost(grpc::CallbackServerContext* context,
                                    const v1::GetHostRequest* request,
                                    v1::GetHostResponse* response) override;
  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context,
                                     const v1::AllocateRequest* request,
                                     v1::ShardsResponse* response) override;
  grpc::ServerUnaryReactor* Seal(grpc::CallbackServerContext* context,
                                 const v1::SealRequest* request,
                                 v1::SealResponse* response) override;
  grpc::ServerUnaryReactor* Lend(grpc::CallbackServerContext* context,
                                 const v1::LendRequest* request,
                                 v1::SealResponse* response) override;
  grpc::ServerUnaryReactor* Unseal(grpc::CallbackServerContext* context,
                                   const v1::UnsealRequest* request,
                                   v1::SealResponse* response) override;
  grpc::ServerUnaryReactor* GetShards(grpc::CallbackServerContext* context,
                                      const v1::GetShardsRequest* request,
                                      v1::ShardsResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    google::protobuf::Empty* response) override;

 private:
  Strand* const strand_;
  StateBuffers* const buffers_;
  LocalCalls* const calls_;
  const SocketGate* const gate_;
  std::atomic<uint64_t> next_call_ = 1;
};

}  // namespace remesh::worker
