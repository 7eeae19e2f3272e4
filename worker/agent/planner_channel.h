// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <memory>
#include <string>

namespace remesh {

// When a connection without an answer counts as broken: a link that drops everything closes
// nothing, and what is written into it fails much later, if ever.
struct Keepalive {
  std::chrono::nanoseconds time = std::chrono::seconds(5);     // of silence, then it is probed
  std::chrono::nanoseconds timeout = std::chrono::seconds(5);  // that the probe may take
};

// A channel to the planner at HOST:PORT; dials when it is used. Never through a proxy.
std::shared_ptr<grpc::Channel> DialPlanner(const std::string& address, const Keepalive& keepalive);

}  // namespace remesh
