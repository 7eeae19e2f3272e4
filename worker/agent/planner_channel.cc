// SPDX-License-Identifier: Apache-2.0
#include "worker/agent/planner_channel.h"

#include <grpcpp/create_channel.h>

#include "service/tls/credentials.h"

namespace remesh::worker {
namespace {

// The planner ends connections of a certain age, and a call that begins at that moment may fail. A
// program can be asked for again; a move would fail for it. Attach is not repeated by gRPC: a new
// stream is a new attachment.
constexpr char kServiceConfig[] = R"({
  "methodConfig": [{
    "name": [{"service": "remesh.v1.PlanService", "method": "GetHostProgram"}],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.05s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
})";

int Millis(std::chrono::nanoseconds duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

std::shared_ptr<grpc::Channel> PlannerChannel::Get() {
  const std::shared_ptr<const service::Certificates> now =
      planner_.certificates == nullptr ? nullptr : planner_.certificates->current();
  absl::MutexLock lock(&mutex_);
  if (channel_ == nullptr || certificates_ != now) {
    certificates_ = now;
    channel_ = Make(now.get());
  }
  return channel_;
}

std::shared_ptr<grpc::Channel> PlannerChannel::Make(
    const service::Certificates* certificates) const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Despite its name, this bounds how long one attempt to connect takes. A pod that is gone never
  // answers, and its service leads a connection that was begun to it to the end.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(planner_.keepalive.time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(planner_.keepalive.timeout));
  // Allows any number of probes without data between them.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A server of many hosts would have to answer a ping after each of its commands.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetServiceConfigJSON(kServiceConfig);
  if (!planner_.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(planner_.tls_server_name);
  }
  return grpc::CreateCustomChannel(planner_.address, service::MakeChannelCredentials(certificates),
                                   arguments);
}

}  // namespace remesh::worker
