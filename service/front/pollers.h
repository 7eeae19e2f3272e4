// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <thread>
#include <vector>

namespace remesh::service {

// Threads that read the connections of a server, besides those of gRPC, which are half as many as
// the processors. A thread reads one connection for as long as it has something to read, so as many
// busy connections as there are threads keep all others waiting. They sleep while there is nothing
// to read.
class Pollers {
 public:
  static constexpr int kThreads = 16;

  explicit Pollers(grpc::ServerBuilder& builder) : queue_(builder.AddCompletionQueue()) {}
  // REQUIRES: the server was shut down, if it was started.
  ~Pollers();

  // To be called when the server is started.
  void Start();

 private:
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;  // nothing is ever put into it
  std::vector<std::thread> threads_;
};

}  // namespace remesh::service
