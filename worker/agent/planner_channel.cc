// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/planner_channel.h"

#include <grpcpp/create_channel.h>

#include "service/credentials.h"

namespace remesh {
namespace {

int Millis(std::chrono::nanoseconds duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

std::shared_ptr<grpc::Channel> DialPlanner(const std::string& address, const Keepalive& keepalive) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(keepalive.time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(keepalive.timeout));
  // Probes are not rationed by the data between them.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, MakeChannelCredentials(), arguments);
}

}  // namespace remesh
