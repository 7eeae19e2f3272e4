// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "service/front/accept_loop.h"
#include "service/front/caller_limits.h"
#include "service/front/hand_over.h"
#include "service/front/pollers.h"

namespace remesh::service {

// How connections come to a gRPC server: this process accepts them, limits them, hands them to
// gRPC, and reads them on threads besides gRPC's. To be destroyed before the server is.
class FrontDoor {
 public:
  using Taker = HandOver::Taker;
  using Options = AcceptLoop::Options;
  static constexpr int kTakers = HandOver::kThreads;

  // Prepares a server that was not built yet; see LimitCallers().
  explicit FrontDoor(grpc::ServerBuilder& builder, size_t memory_bytes = kCallersMemory);

  // Accepts connections. REQUIRES: the server was started. The door sets `options.on_shutdown`.
  void Open(std::vector<Fd> listeners, std::vector<Taker> takers, Options options);
  // Accepts nothing more, and shuts the server down: calls that take longer than `grace` end. To be
  // called once, after Open().
  void Shutdown(grpc::Server& server, std::chrono::nanoseconds grace);

 private:
  Pollers pollers_;
  std::unique_ptr<HandOver> hand_over_;
  std::unique_ptr<AcceptLoop> accepts_;  // last: it uses all of the above
};

}  // namespace remesh::service
